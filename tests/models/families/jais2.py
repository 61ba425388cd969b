"""Rows of jais2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("jais2",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "jais2": ("Jais2ForCausalLM", t.sized("jais2")),
        "jais2-plain": (
            "Jais2ForCausalLM",
            t.sized(
                "jais2",
                head_dim=12,
                attention_bias=False,
                mlp_bias=False,
                tie_word_embeddings=True,
                rope_parameters=t.YARN,
            ),
        ),
    }

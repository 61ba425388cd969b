"""Rows of arcee."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("arcee",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "arcee": ("ArceeForCausalLM", t.sized("arcee")),
        "arcee-biases": (
            "ArceeForCausalLM",
            t.sized(
                "arcee",
                head_dim=12,
                tie_word_embeddings=True,
                attention_bias=True,
                mlp_bias=True,
                rope_parameters=t.YARN,
            ),
        ),
    }

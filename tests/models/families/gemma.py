"""Rows of gemma."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("gemma",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gemma": ("GemmaForCausalLM", t.sized("gemma", head_dim=20, tie_word_embeddings=True)),
        "gemma-biases": (
            "GemmaForCausalLM",
            t.sized(
                "gemma",
                head_dim=8,
                attention_bias=True,
                num_key_value_heads=1,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

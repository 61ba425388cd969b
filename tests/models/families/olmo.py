"""Rows of olmo."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("olmo",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "olmo": ("OlmoForCausalLM", t.sized("olmo", clip_qkv=0.4)),
        "olmo-biases": (
            "OlmoForCausalLM",
            t.sized(
                "olmo", attention_bias=True, tie_word_embeddings=True, rope_parameters=t.LINEAR
            ),
        ),
    }

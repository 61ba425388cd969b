"""Rows of gpt2, gpt-sw3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("gpt2",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gpt2": ("GPT2LMHeadModel", t.gpt("gpt2")),
        "gpt2-inner": (
            "GPT2LMHeadModel",
            t.gpt(
                "gpt2",
                n_inner=40,
                scale_attn_weights=False,
                activation_function="relu",
                tie_word_embeddings=False,
            ),
        ),
        "gpt2-layers": ("GPT2LMHeadModel", t.gpt("gpt2", scale_attn_by_inverse_layer_idx=True)),
    }

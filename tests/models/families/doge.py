"""Rows of doge."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "doge": ("DogeForCausalLM", t.sized("doge")),
        "doge-window": (
            "DogeForCausalLM",
            t.sized(
                "doge",
                sliding_window=5,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of lfm3."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "lfm3": (
            "Lfm3ForCausalLM",
            t.sized(
                "lfm3",
                head_dim=12,
                sliding_window=5,
                conv_L_cache=4,
                tie_word_embeddings=True,
                layer_types=["sliding_attention", "full_attention", "conv"],
            ),
        ),
        "lfm3-plain": (
            "Lfm3ForCausalLM",
            t.sized(
                "lfm3",
                head_dim=8,
                conv_bias=True,
                attention_bias=True,
                use_sandwich_norm=False,
                use_attention_gate=False,
                rope_parameters={"full_attention": t.LINEAR},
            ),
        ),
    }

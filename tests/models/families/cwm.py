"""Rows of cwm."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "cwm": (
            "CwmForCausalLM",
            t.sized("cwm", head_dim=8, sliding_window=4, num_hidden_layers=5),
        ),
        "cwm-biases": (
            "CwmForCausalLM",
            t.sized(
                "cwm",
                head_dim=12,
                mlp_bias=True,
                sliding_window=5,
                tie_word_embeddings=True,
                rope_parameters=t.LLAMA3,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            ),
        ),
    }

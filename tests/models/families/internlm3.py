"""Rows of internlm3."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "internlm3": (
            "LlamaForCausalLM",
            t.sized(
                "internlm3", head_dim=10, attention_bias=True, mlp_bias=True, num_hidden_layers=2
            ),
        ),
    }

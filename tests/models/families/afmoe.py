"""Rows of afmoe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("afmoe-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("afmoe", head_dim=12, moe_intermediate_size=24, num_experts=5, sliding_window=4)
    return {
        "afmoe": (
            "AfmoeForCausalLM",
            sizes
            | {
                "num_experts_per_tok": 3,
                "global_attn_every_n_layers": 2,
                "attention_bias": True,
                "route_scale": 1.5,
            },
        ),
        "afmoe-gguf": (
            "AfmoeForCausalLM",
            sizes
            | {
                "num_hidden_layers": 4,
                "num_experts_per_tok": 2,
                "num_shared_experts": 1,
                "num_dense_layers": 2,
                "mup_enabled": True,
            },
        ),
    }

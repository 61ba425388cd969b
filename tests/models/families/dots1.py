"""Rows of dots1."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("dots1-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("dots1", head_dim=12, moe_intermediate_size=24, n_shared_experts=2)
    return {
        "dots1": (
            "Dots1ForCausalLM",
            sizes
            | {
                "n_routed_experts": 8,
                "num_experts_per_tok": 3,
                "n_group": 4,
                "topk_group": 2,
                "first_k_dense_replace": 1,
                "norm_topk_prob": True,
                "routed_scaling_factor": 1.5,
                "sliding_window": 4,
                "max_window_layers": 1,
                "attention_bias": True,
            },
        ),
        "dots1-gguf": (
            "Dots1ForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "num_key_value_heads": 6,  # llama.cpp knows no groups here
                "n_routed_experts": 6,
                "num_experts_per_tok": 2,
                "first_k_dense_replace": 1,
                "routed_scaling_factor": 2.5,
                "rope_parameters": t.YARN,
            },
        ),
    }

"""Rows of mellum."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("mellum-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mellum": (
            "MellumForCausalLM",
            t.sized(
                "mellum",
                head_dim=8,
                moe_intermediate_size=24,
                num_experts=5,
                num_experts_per_tok=2,
                sliding_window=5,
                layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                mlp_layer_types=["dense", "sparse", "sparse"],
            ),
        ),
        "mellum-gguf": (
            "MellumForCausalLM",
            t.sized(
                "mellum",
                head_dim=8,
                num_hidden_layers=2,
                moe_intermediate_size=24,
                num_experts=5,
                num_experts_per_tok=2,
                norm_topk_prob=True,
                sliding_window=5,
                layer_types=["sliding_attention", "full_attention"],
                rope_parameters=dict.fromkeys(
                    ("full_attention", "sliding_attention"),
                    {"rope_type": "default", "rope_theta": 900.0},
                ),
            ),
        ),
        "mellum-scaled": (
            "MellumForCausalLM",
            t.sized(
                "mellum",
                head_dim=12,
                num_hidden_layers=2,
                moe_intermediate_size=24,
                num_experts=4,
                num_experts_per_tok=2,
                norm_topk_prob=False,
                attention_bias=True,
                tie_word_embeddings=True,
                sliding_window=4,
                layer_types=["full_attention", "sliding_attention"],
                rope_parameters={
                    "full_attention": t.YARN,
                    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
                },
            ),
        ),
    }

"""Rows of laguna."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("laguna-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized(
        "laguna",
        head_dim=12,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=20,
        num_experts=5,
        sliding_window=4,
    )
    return {
        "laguna": (
            "LagunaForCausalLM",
            sizes
            | {
                "num_experts_per_tok": 2,
                "num_attention_heads_per_layer": [4, 6, 2],
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                "moe_router_logit_softcapping": 0.8,
            },
        ),
        "laguna-gguf": (
            "LagunaForCausalLM",
            sizes
            | {
                "num_experts_per_tok": 2,
                "num_attention_heads_per_layer": [4, 6, 2],
                "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
                "moe_routed_scaling_factor": 1.5,
            },
        ),
        "laguna-features": (
            "LagunaForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "num_experts_per_tok": 3,
                "gating": "per-element",
                "attention_bias": True,
                "tie_word_embeddings": True,
                "moe_routed_scaling_factor": 1.5,
                "mlp_layer_types": ["sparse", "dense"],
                "layer_types": ["full_attention", "sliding_attention"],
                "rope_parameters": {
                    "full_attention": t.YARN,
                    "sliding_attention": t.LINEAR | {"partial_rotary_factor": 0.5},
                },
            },
        ),
    }

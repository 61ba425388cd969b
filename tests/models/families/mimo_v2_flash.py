"""Rows of mimo_v2_flash."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("mimo_v2_flash-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized(
        "mimo_v2_flash", head_dim=12, v_head_dim=7, moe_intermediate_size=24, sliding_window=4
    )
    sizes["num_attention_heads"], sizes["num_key_value_heads"] = 4, 2
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    return {
        "mimo_v2_flash": (
            "MiMoV2FlashForCausalLM",
            sizes
            | {
                "n_routed_experts": 8,
                "num_experts_per_tok": 3,
                "n_group": 4,
                "topk_group": 2,
                "layer_types": kinds,
                "rope_parameters": {
                    "full_attention": t.YARN | {"partial_rotary_factor": 0.5},
                    "sliding_attention": t.LINEAR,
                },
            },
        ),
        "mimo_v2_flash-gguf": (
            "MiMoV2FlashForCausalLM",
            sizes
            | {
                "n_routed_experts": 5,
                "num_experts_per_tok": 2,
                "layer_types": kinds,
                "mlp_layer_types": ["dense", "sparse", "sparse"],
                "rope_parameters": {
                    "full_attention": {
                        "rope_type": "default",
                        "rope_theta": 900.0,
                        "partial_rotary_factor": 0.5,
                    },
                    "sliding_attention": {
                        "rope_type": "default",
                        "rope_theta": 500.0,
                        "partial_rotary_factor": 0.5,
                    },
                },
            },
        ),
        "mimo_v2_flash-biases": (
            "MiMoV2FlashForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "n_routed_experts": 5,
                "num_experts_per_tok": 2,
                "attention_bias": True,
                "norm_topk_prob": False,
                "routed_scaling_factor": 1.5,
                "tie_word_embeddings": True,
                "attention_value_scale": None,
                "mlp_layer_types": ["sparse", "dense"],
            },
        ),
    }

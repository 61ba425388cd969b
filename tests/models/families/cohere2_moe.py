"""Rows of cohere2_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("cohere2_moe",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("cohere2_moe", head_dim=12, intermediate_size=24, sliding_window=4)
    return {
        "cohere2_moe": (
            "Cohere2MoeForCausalLM",
            sizes
            | {
                "num_experts": 5,
                "num_experts_per_tok": 2,
                "num_shared_experts": 2,
                "sliding_window_pattern": 2,
                "mlp_layer_types": ["dense", "sparse", "sparse"],
                "prefix_dense_intermediate_size": 40,
                "tie_word_embeddings": True,
            },
        ),
        "cohere2_moe-sigmoid": (
            "Cohere2MoeForCausalLM",
            sizes
            | {
                "num_experts": 6,
                "num_experts_per_tok": 3,
                "num_shared_experts": 1,
                "shared_expert_combination_strategy": "sum",
                "expert_selection_fn": "sigmoid",
                "norm_topk_prob": False,
                "attention_bias": True,
                "rms_norm_eps": 1e-5,
                "layer_types": ["sliding_attention", "full_attention", "full_attention"],
                "mlp_layer_types": ["sparse", "dense", "sparse"],
                "prefix_dense_sliding_window_pattern": 2,
            },
        ),
    }

"""Rows of lfm2_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("lfm2_moe",)

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("lfm2_moe", moe_intermediate_size=24, num_experts=5)
    return {
        "lfm2_moe": (
            "Lfm2MoeForCausalLM",
            sizes
            | {
                "layer_types": ["conv", "full_attention", "conv"],
                "num_dense_layers": 1,
                "num_experts_per_tok": 2,
                "tie_word_embeddings": True,
            },
        ),
        "lfm2_moe-plain": (
            "Lfm2MoeForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "layer_types": ["full_attention", "conv"],
                "num_dense_layers": 0,
                "num_experts_per_tok": 3,
                "use_expert_bias": False,
                "norm_topk_prob": False,
                "routed_scaling_factor": 1.5,
                "conv_bias": True,
                "rope_parameters": t.YARN,
            },
        ),
    }

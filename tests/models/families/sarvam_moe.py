"""Rows of sarvam_moe."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("sarvam_moe", head_dim=12, moe_intermediate_size=24)
    return {
        "sarvam_moe": (
            "Glm4MoeForCausalLM",
            sizes
            | {
                "n_routed_experts": 8,
                "num_experts_per_tok": 3,
                "n_group": 4,
                "topk_group": 2,
                "n_shared_experts": 2,
            },
        ),
        "sarvam_moe-plain": (
            "Glm4MoeForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "n_routed_experts": 5,
                "num_experts_per_tok": 2,
                "use_qk_norm": False,
                "attention_bias": True,
                "norm_topk_prob": False,
                "tie_word_embeddings": True,
                "rope_parameters": t.YARN,
            },
        ),
    }

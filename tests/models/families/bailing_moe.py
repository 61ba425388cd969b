"""Rows of bailing_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("bailing_moe", "bailing_moe-second")


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.sized("bailing_moe", moe_intermediate_size=24, num_experts_per_tok=2)
    sizes |= {"num_shared_experts": 2, "rope_theta": 500.0, "rms_norm_eps": 1e-5}
    sizes |= {"use_bias": False, "use_qkv_bias": False, "num_hidden_layers": 2}
    return {
        "bailing_moe": (
            "BailingMoeForCausalLM",
            sizes | {"num_experts": 5, "first_k_dense_replace": 0, "norm_topk_prob": False},
        ),
        "bailing_moe-second": (
            "BailingMoeV2ForCausalLM",
            sizes
            | {"num_experts": 8, "first_k_dense_replace": 1, "norm_topk_prob": True}
            | {"use_qk_norm": True, "partial_rotary_factor": 0.5, "score_function": "sigmoid"}
            | {"n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5, "num_shared_experts": 1}
            | {"moe_router_enable_expert_bias": True, "hidden_size": 48, "num_attention_heads": 6},
        ),
    }

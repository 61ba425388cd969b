"""Rows of deepseek."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("deepseek",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.sized("deepseek", moe_intermediate_size=24, n_shared_experts=2, n_routed_experts=5)
    sizes |= {"num_experts_per_tok": 2, "first_k_dense_replace": 1, "norm_topk_prob": False}
    sizes |= {"rope_theta": 500.0, "rms_norm_eps": 1e-6, "attention_bias": False}
    return {
        "deepseek": ("DeepseekForCausalLM", sizes),
        "deepseek-normed": (
            "DeepseekForCausalLM",
            sizes | {"norm_topk_prob": True, "attention_bias": True, "num_hidden_layers": 2},
        ),
    }

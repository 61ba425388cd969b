"""Rows of bailing_hybrid."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.latent(
        "bailing_hybrid", num_experts=6, num_experts_per_tok=2, head_dim=8, n_group=3, topk_group=2
    )
    return {
        "bailing_hybrid": (
            "BailingHybridForCausalLM",
            sizes | {"layer_group_size": 2, "short_conv_kernel_size": 3},
        ),
        "bailing_hybrid-free": (
            "BailingHybridForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "n_group": 1,
                "topk_group": 1,
                "q_lora_rank": 10,
                "kda_safe_gate": False,
                "norm_topk_prob": False,
                "attention_bias": True,
                "n_shared_experts": 2,
                "tie_word_embeddings": True,
                "mlp_layer_types": ["sparse", "dense"],
                "layer_types": ["full_attention", "linear_attention"],
            },
        ),
    }

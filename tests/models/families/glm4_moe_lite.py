"""Rows of glm4_moe_lite."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.latent("glm4_moe_lite", q_lora_rank=20, n_routed_experts=8, num_experts_per_tok=3)
    del sizes["first_k_dense_replace"]
    return {
        "glm4_moe_lite": (
            "Glm4MoeLiteForCausalLM",
            sizes
            | {"n_group": 4, "topk_group": 2, "mlp_layer_types": ["sparse", "dense", "sparse"]},
        ),
        "glm4_moe_lite-halves": (
            "Glm4MoeLiteForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "q_lora_rank": None,
                "norm_topk_prob": False,
                "rope_interleave": False,
                "attention_bias": True,
                "n_shared_experts": 2,
                "rope_parameters": t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            },
        ),
    }

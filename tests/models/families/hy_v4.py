"""Rows of hy_v4."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.latent(
        "hy_v4", q_lora_rank=20, index_head_dim=10, index_n_heads=12, n_routed_experts=6
    )
    del sizes["first_k_dense_replace"]
    return {
        "hy_v4": (
            "HYV4ForCausalLM",
            sizes
            | {
                "num_experts_per_tok": 2,
                "index_topk": 4,
                "hc_mult": 3,
                "indexer_types": ["full", "shared", "full"],
                "swiglu_limit": 0.3,
            },
        ),
        "hy_v4-halves": (
            "HYV4ForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "n_routed_experts": 8,
                "num_experts_per_tok": 3,
                "n_group": 4,
                "topk_group": 2,
                "n_shared_experts": 2,
                "norm_topk_prob": False,
                "attention_bias": True,
                "index_topk": 20,
                "hc_mult": 2,
                "hc_magnitude": 1.5,
                "hc_eps": 0.01,
                "mlp_layer_types": ["sparse", "dense"],
                "tie_word_embeddings": True,
                "rope_parameters": t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            },
        ),
    }

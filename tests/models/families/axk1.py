"""Rows of axk1."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.latent("axk1", q_lora_rank=20, n_routed_experts=8, num_experts_per_tok=3)
    del sizes["first_k_dense_replace"]
    return {
        "axk1": (
            "AXK1ForCausalLM",
            sizes
            | {"n_group": 4, "topk_group": 2, "mlp_layer_types": ["sparse", "dense", "sparse"]},
        ),
        "axk1-halves": (
            "AXK1ForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "n_group": 1,
                "topk_group": 1,
                "norm_topk_prob": False,
                "rope_interleave": False,
                "attention_bias": True,
                "n_shared_experts": 2,
                "tie_word_embeddings": True,
                "rope_parameters": t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            },
        ),
    }

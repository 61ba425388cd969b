"""Rows of axk2."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.latent(
        "axk2",
        q_lora_rank=20,
        n_routed_experts=8,
        num_experts_per_tok=2,
        index_topk=4,
        index_head_dim=10,
        index_n_heads=13,
        gated_norm_rank=5,
    )
    return {
        "axk2": (
            "AXK2ForCausalLM",
            sizes
            | {"n_group": 4, "topk_group": 2, "mlp_layer_types": ["sparse", "dense", "sparse"]},
        ),
        "axk2-free": (
            "AXK2ForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "index_topk": 3,
                "norm_topk_prob": False,
                "attention_bias": True,
                "n_shared_experts": 2,
                "tie_word_embeddings": True,
                "rope_parameters": t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            },
        ),
    }

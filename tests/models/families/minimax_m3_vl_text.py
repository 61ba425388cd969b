"""Rows of minimax_m3_vl_text."""

from typing import Any

# The published code counts blocks from a row's padding: padded rows are read alone.
KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    half = {"rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.5}
    sizes = t.sized(
        "minimax_m3_vl_text",
        head_dim=12,
        intermediate_size=24,
        dense_intermediate_size=40,
        shared_intermediate_size=20,
        num_local_experts=5,
        index_head_dim=10,
        rope_parameters=half,
    )
    return {
        "minimax_m3_vl_text": (
            "MiniMaxM3VLForCausalLM",
            sizes
            | {
                "num_experts_per_tok": 2,
                "index_n_heads": 2,
                "index_block_size": 3,
                "index_topk_blocks": 2,
                "layer_types": ["minimax_m3_sparse", "full_attention", "minimax_m3_sparse"],
                "mlp_layer_types": ["dense", "sparse", "sparse"],
                "swiglu_limit": 0.4,
            },
        ),
        "minimax_m3_vl_text-near": (
            "MiniMaxM3VLForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "num_experts_per_tok": 3,
                "index_n_heads": 3,
                "index_block_size": 2,
                "index_topk_blocks": 4,
                "index_local_blocks": 2,
                "layer_types": ["minimax_m3_sparse", "minimax_m3_sparse"],
                "routed_scaling_factor": 1.5,
                "swiglu_alpha": 1.2,
                "tie_word_embeddings": True,
            },
        ),
    }

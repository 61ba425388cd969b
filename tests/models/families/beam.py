"""Rows of beam."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized(
        "beam",
        head_dim=8,
        moe_intermediate_size=24,
        num_experts=8,
        num_experts_per_tok=3,
        n_group=4,
        topk_group=2,
        sliding_window=4,
    )
    return {
        "beam": (
            "BeamForCausalLM",
            sizes | {"mlp_layer_types": ["dense", "sparse", "sparse"]},
        ),
        "beam-free": (
            "BeamForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "attention_bias": True,
                "norm_topk_prob": False,
                "tie_word_embeddings": True,
                "final_logit_softcapping": None,
                "n_group": 2,
                "topk_group": 1,
                "layer_types": ["full_attention", "sliding_attention"],
                "mlp_layer_types": ["sparse", "dense"],
                "rope_parameters": {
                    "full_attention": t.LINEAR,
                    "sliding_attention": None,
                },
            },
        ),
    }

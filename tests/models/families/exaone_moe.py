"""Rows of exaone_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("exaone_moe-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("exaone_moe", head_dim=12, moe_intermediate_size=24, sliding_window=4)
    return {
        "exaone_moe": (
            "ExaoneMoeForCausalLM",
            sizes
            | {
                "num_experts": 8,
                "num_experts_per_tok": 3,
                "n_group": 4,
                "topk_group": 2,
                "num_shared_experts": 2,
                "sliding_window_pattern": 2,
                "norm_topk_prob": False,
                "mlp_layer_types": ["sparse", "dense", "sparse"],
            },
        ),
        "exaone_moe-gguf": (
            "ExaoneMoeForCausalLM",
            sizes | {"num_hidden_layers": 4, "num_experts": 6, "num_experts_per_tok": 2},
        ),
    }

"""Rows of zaya."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {
        **{key: value for key, value in t.SIZES.items() if key != "intermediate_size"},
        "model_type": "zaya",
        "num_experts": 3,
        "moe_intermediate_size": 20,
        "router_hidden_size": 14,
    }
    return {
        "zaya": (
            "ZayaForCausalLM",
            {
                **sizes,
                "head_dim": 12,
                "cca_time0": 3,
                "sliding_window": 5,
                "layer_types": ["hybrid", "hybrid_sliding", "hybrid"],
            },
        ),
        "zaya-biases": (
            "ZayaForCausalLM",
            {
                **sizes,
                "num_hidden_layers": 2,
                "num_attention_heads": 3,
                "num_key_value_heads": 3,
                "head_dim": 8,
                "cca_time1": 3,
                "attention_bias": True,
                "lm_head_bias": True,
                "tie_word_embeddings": True,
                "rope_parameters": {"hybrid": {**t.LINEAR, "partial_rotary_factor": 1.0}},
            },
        ),
    }

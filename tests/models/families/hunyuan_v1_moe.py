"""Rows of hunyuan_v1_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("hunyuan_v1_moe",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("hunyuan_v1_moe", num_experts=5, num_hidden_layers=2)
    return {
        "hunyuan_v1_moe": (
            "HunYuanMoEV1ForCausalLM",
            sizes
            | {
                "moe_topk": 2,
                "head_dim": 12,
                "rope_parameters": {
                    "rope_type": "dynamic",
                    "alpha": 12.0,
                    "factor": 1.0,
                    "rope_theta": 700.0,
                },
            },
        ),
        "hunyuan_v1_moe-layers": (
            "HunYuanMoEV1ForCausalLM",
            sizes
            | {
                "head_dim": 8,
                "moe_topk": [1, 3],
                "attention_bias": True,
                "tie_word_embeddings": True,
            },
        ),
    }

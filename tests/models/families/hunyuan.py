"""Rows of hunyuan_v1_dense."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("hunyuan",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "hunyuan": (
            "HunYuanDenseV1ForCausalLM",
            t.sized(
                "hunyuan_v1_dense",
                head_dim=12,
                rope_parameters={
                    "rope_type": "dynamic",
                    "alpha": 50.0,
                    "factor": 1.0,
                    "rope_theta": 10000.0,
                },
            ),
        ),
        "hunyuan-tied": (
            "HunYuanDenseV1ForCausalLM",
            t.sized(
                "hunyuan_v1_dense",
                head_dim=8,
                attention_bias=True,
                tie_word_embeddings=True,
            ),
        ),
    }

"""Rows of qwen3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("qwen3",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "qwen3": ("Qwen3ForCausalLM", t.sized("qwen3", head_dim=20)),
        "qwen3-biases": (
            "Qwen3ForCausalLM",
            t.sized(
                "qwen3",
                head_dim=8,
                attention_bias=True,
                tie_word_embeddings=True,
                rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
                max_position_embeddings=64,
            ),
        ),
    }

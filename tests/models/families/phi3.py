"""Rows of phi3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("phi3",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "phi3": (
            "Phi3ForCausalLM",
            t.sized(
                "phi3",
                original_max_position_embeddings=6,
                rope_parameters=t.LONG,
            ),
        ),
        "phi3-partial": (
            "Phi3ForCausalLM",
            t.sized(
                "phi3",
                num_attention_heads=4,
                num_key_value_heads=4,
                tie_word_embeddings=True,
                sliding_window=6,
                original_max_position_embeddings=32,
                rope_parameters={**t.LONG, "partial_rotary_factor": 0.7},
            ),
        ),
    }

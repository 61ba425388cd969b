"""Rows of ministral3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("ministral3-tied",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "ministral3": (
            "Ministral3ForCausalLM",
            t.sized(
                "ministral3",
                head_dim=10,
                sliding_window=6,
                rope_parameters=t.YARN
                | {
                    "factor": 8.0,
                    "original_max_position_embeddings": 5,
                    "llama_4_scaling_beta": 0.3,
                    "mscale": 1.0,
                    "mscale_all_dim": 1.0,
                },
            ),
        ),
        "ministral3-tied": (
            "Ministral3ForCausalLM",
            t.sized("ministral3", head_dim=8, tie_word_embeddings=True),
        ),
    }

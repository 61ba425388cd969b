"""Rows of mixtral."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("mixtral-tied",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mixtral": (
            "MixtralForCausalLM",
            t.sized(
                "mixtral",
                num_local_experts=5,
                num_experts_per_tok=2,
                sliding_window=4,
            ),
        ),
        "mixtral-tied": (
            "MixtralForCausalLM",
            t.sized(
                "mixtral",
                num_local_experts=3,
                num_experts_per_tok=3,
                sliding_window=None,
                tie_word_embeddings=True,
                num_hidden_layers=2,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of mistral, ministral."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("mistral-yarn",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mistral": ("MistralForCausalLM", t.sized("mistral", sliding_window=5)),
        "mistral-yarn": (
            "MistralForCausalLM",
            t.sized(
                "mistral",
                sliding_window=None,
                tie_word_embeddings=True,
                head_dim=16,
                rope_parameters=t.YARN,
            ),
        ),
        "ministral": (
            "MinistralForCausalLM",
            t.sized(
                "ministral",
                sliding_window=4,
                head_dim=8,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            ),
        ),
    }

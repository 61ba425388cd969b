"""Rows of nemotron."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("nemotron",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "nemotron": ("NemotronForCausalLM", t.sized("nemotron")),
        "nemotron-biases": (
            "NemotronForCausalLM",
            t.sized(
                "nemotron",
                head_dim=12,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                rope_parameters={
                    "rope_type": "linear",
                    "factor": 2.0,
                    "rope_theta": 900.0,
                    "partial_rotary_factor": 0.34,
                },
            ),
        ),
    }

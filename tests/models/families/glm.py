"""Rows of glm, glm4."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("glm4",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "glm": ("GlmForCausalLM", t.sized("glm", head_dim=12)),
        "glm-plain": (
            "GlmForCausalLM",
            t.sized(
                "glm",
                head_dim=8,
                attention_bias=False,
                tie_word_embeddings=True,
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": 900.0,
                    "partial_rotary_factor": 1.0,
                },
            ),
        ),
        "glm4": ("Glm4ForCausalLM", t.sized("glm4", head_dim=12)),
    }

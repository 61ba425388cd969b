"""Rows of stablelm."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "stablelm",
    "stablelm-norms",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "stablelm": ("StableLmForCausalLM", t.sized("stablelm", use_qkv_bias=True)),
        "stablelm-parallel": (
            "StableLmForCausalLM",
            t.sized(
                "stablelm",
                use_parallel_residual=True,
                tie_word_embeddings=True,
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": 900.0,
                    "partial_rotary_factor": 0.5,
                },
            ),
        ),
        "stablelm-norms": (
            "StableLmForCausalLM",
            t.sized(
                "stablelm",
                qk_layernorm=True,
                use_parallel_residual=True,
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": 900.0,
                    "partial_rotary_factor": 0.25,
                },
            ),
        ),
    }

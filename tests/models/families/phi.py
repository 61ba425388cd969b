"""Rows of phi."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("phi",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "phi": ("PhiForCausalLM", t.sized("phi", num_key_value_heads=6)),
        "phi-tied": (
            "PhiForCausalLM",
            t.sized(
                "phi",
                num_key_value_heads=3,
                hidden_act="gelu",
                rope_parameters={
                    "rope_type": "linear",
                    "factor": 2.0,
                    "rope_theta": 300.0,
                    "partial_rotary_factor": 0.25,
                },
            ),
        ),
        "phi-norms": ("PhiForCausalLM", t.sized("phi", qk_layernorm=True)),
    }

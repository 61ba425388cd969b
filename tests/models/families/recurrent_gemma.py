"""Rows of recurrent_gemma."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "recurrent_gemma": ("RecurrentGemmaForCausalLM", t.griffin()),
        "recurrent_gemma-wide": (
            "RecurrentGemmaForCausalLM",
            t.griffin(
                lru_width=60,
                conv1d_width=3,
                block_types=["attention", "recurrent"],
                attention_bias=True,
                num_key_value_heads=6,
                logits_soft_cap=3.0,
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": 900.0,
                    "partial_rotary_factor": 0.75,
                },
            ),
        ),
    }

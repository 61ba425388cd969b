"""Rows of persimmon."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "persimmon": ("PersimmonForCausalLM", {"model_type": "persimmon", **t.NEOX}),
        "persimmon-plain": (
            "PersimmonForCausalLM",
            {
                "model_type": "persimmon",
                **t.NEOX,
                "qk_layernorm": False,
                "tie_word_embeddings": True,
                "num_attention_heads": 4,
                "rope_parameters": {
                    "rope_type": "linear",
                    "factor": 2.0,
                    "rope_theta": 900.0,
                    "partial_rotary_factor": 0.67,
                },
            },
        ),
    }

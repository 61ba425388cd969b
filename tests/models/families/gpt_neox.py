"""Rows of gpt_neox."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("gpt_neox",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gpt_neox": (
            "GPTNeoXForCausalLM",
            {
                "model_type": "gpt_neox",
                **t.NEOX,
                "num_attention_heads": 3,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "partial_rotary_factor": 0.25,
                },
            },
        ),
        "gpt_neox-in-turn": (
            "GPTNeoXForCausalLM",
            {
                "model_type": "gpt_neox",
                **t.NEOX,
                "use_parallel_residual": False,
                "attention_bias": False,
                "tie_word_embeddings": True,
                "rope_parameters": {
                    "rope_type": "linear",
                    "factor": 2.0,
                    "rope_theta": 900.0,
                    "partial_rotary_factor": 1.0,
                },
            },
        ),
    }

"""Rows of mamba."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("mamba",)

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mamba": (
            "MambaForCausalLM",
            {
                **t.MAMBA,
                "model_type": "mamba",
                "state_size": 5,
                "tie_word_embeddings": True,
            },
        ),
        "mamba-biases": (
            "MambaForCausalLM",
            {
                **t.MAMBA,
                "model_type": "mamba",
                "state_size": 8,
                "conv_kernel": 3,
                "use_bias": True,
                "use_conv_bias": False,
                "time_step_rank": 7,
                "expand": 1,
                "tie_word_embeddings": False,
            },
        ),
    }

"""Rows of mamba2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("mamba2",)

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mamba2": (
            "Mamba2ForCausalLM",
            {
                **t.MAMBA,
                "model_type": "mamba2",
                "state_size": 8,
                "num_heads": 8,
                "head_dim": 12,
                "n_groups": 2,
                "chunk_size": 4,
                "tie_word_embeddings": False,
            },
        ),
        "mamba2-limits": (
            "Mamba2ForCausalLM",
            {
                **t.MAMBA,
                "model_type": "mamba2",
                "state_size": 5,
                "num_heads": 6,
                "head_dim": 8,
                "expand": 1,
                "n_groups": 1,
                "conv_kernel": 3,
                "use_bias": True,
                "use_conv_bias": False,
                "time_step_limit": [0.3, 1.1],
                "tie_word_embeddings": True,
            },
        ),
    }

"""Rows of falcon_mamba."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "falcon_mamba": (
            "FalconMambaForCausalLM",
            {
                **t.MAMBA,
                "model_type": "falcon_mamba",
                "state_size": 5,
                "mixer_rms_eps": 0.01,
                "tie_word_embeddings": False,
            },
        ),
        "falcon_mamba-biases": (
            "FalconMambaForCausalLM",
            {
                **t.MAMBA,
                "model_type": "falcon_mamba",
                "num_hidden_layers": 2,
                "state_size": 8,
                "conv_kernel": 3,
                "use_bias": True,
                "use_conv_bias": False,
                "time_step_rank": 7,
                "expand": 1,
                "tie_word_embeddings": True,
            },
        ),
    }

"""Rows of rwkv7."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("rwkv7-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        # These are of make_rwkv_goldens.py.
        "rwkv7": (
            "",
            {
                **t.RWKV,
                "model_type": "rwkv7",
                "head_dim": 12,
                "decay_low_rank_dim": 5,
                "a_low_rank_dim": 6,
                "v_low_rank_dim": 7,
                "gate_low_rank_dim": 9,
                "group_norm_eps": 64e-5,
            },
        ),
        # llama.cpp takes heads of 64.
        "rwkv7-gguf": (
            "",
            {
                **t.RWKV,
                "model_type": "rwkv7",
                "hidden_size": 128,
                "num_hidden_layers": 2,
                "head_dim": 64,
                "decay_low_rank_dim": 5,
                "a_low_rank_dim": 6,
                "v_low_rank_dim": 7,
                "gate_low_rank_dim": 9,
            },
        ),
    }

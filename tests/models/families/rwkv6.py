"""Rows of rwkv6."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("rwkv6",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "rwkv6": (
            "",
            {
                **t.RWKV,
                "model_type": "rwkv6",
                "attention_hidden_size": 48,
                "head_size": 12,
                "time_mix_extra_dim": 5,
                "time_decay_extra_dim": 7,
            },
        ),
    }

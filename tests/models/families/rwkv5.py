"""Rows of rwkv5."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "rwkv5": (
            "",
            {
                **t.RWKV,
                "model_type": "rwkv5",
                "attention_hidden_size": 48,
                "head_size": 16,
                "gate": True,
                "shared_decay": False,
            },
        ),
        "rwkv5-shared": (
            "",
            {
                **t.RWKV,
                "model_type": "rwkv5",
                "attention_hidden_size": 48,
                "head_size": 8,
                "gate": False,
                "shared_decay": True,
                "num_hidden_layers": 2,
            },
        ),
    }

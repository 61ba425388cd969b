"""Rows of neobert."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = {k: v for k, v in t.encoder("neobert").items() if k != "max_position_embeddings"}
    return {
        "neobert": (
            "NeoBERT",
            sizes | {"hidden_act": "SwiGLU", "max_length": 20, "norm_eps": 1e-6, "rms_norm": True},
        ),
    }

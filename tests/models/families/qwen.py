"""Rows of qwen."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("qwen",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = {k: v for k, v in t.NEOX.items() if k != "max_position_embeddings"}
    sizes |= {"model_type": "qwen", "intermediate_size": 112, "kv_channels": 8, "seq_length": 64}
    sizes |= {"layer_norm_epsilon": 1e-6, "rotary_emb_base": 10000, "no_bias": True}
    return {
        "qwen": ("QWenLMHeadModel", sizes),
    }

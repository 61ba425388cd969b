"""Rows of openelm."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("openelm",)
OPENELM: dict[str, Any] = {
    "model_type": "openelm", "vocab_size": 131, "model_dim": 48, "num_transformer_layers": 3,
    "head_dim": 10, "num_query_heads": [4, 6, 8], "num_kv_heads": [2, 2, 4],
    "ffn_multipliers": [0.5, 1.3, 2.0], "ffn_dim_divisor": 8, "max_context_length": 64,
    "activation_fn_name": "swish", "rope_freq_constant": 10000, "share_input_output_layers": True,
}  # fmt: skip


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    return {
        "openelm": ("OpenELMForCausalLM", OPENELM),
    }

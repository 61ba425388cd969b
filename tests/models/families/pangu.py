"""Rows of PanguEmbedded."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("pangu",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.sized("PanguEmbedded", rope_theta=500.0, rms_norm_eps=1e-5, num_hidden_layers=2)
    return {
        "pangu": ("PanguEmbeddedForCausalLM", sizes | {"bias": True}),
    }

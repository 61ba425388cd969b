"""Rows of nanbeige."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("nanbeige", "nanbeige-through")


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.sized("nanbeige", num_hidden_layers=2, rope_theta=500.0, rms_norm_eps=1e-5)
    return {
        "nanbeige": ("NanbeigeForCausalLM", sizes | {"num_loops": 2}),
        "nanbeige-through": (
            "NanbeigeForCausalLM",
            sizes | {"num_loops": 3, "skip_loop_final_norm": True, "num_hidden_layers": 1},
        ),
    }

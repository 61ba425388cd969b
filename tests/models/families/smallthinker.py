"""Rows of smallthinker."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("smallthinker",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = {k: v for k, v in t.sized("smallthinker").items() if k != "intermediate_size"}
    sizes |= {"head_dim": 10, "moe_num_primary_experts": 5, "moe_num_active_primary_experts": 2}
    sizes |= {"moe_ffn_hidden_size": 24, "rope_theta": 500.0, "rms_norm_eps": 1e-5}
    return {
        "smallthinker": (
            "SmallThinkerForCausalLM",
            sizes | {"moe_primary_router_apply_softmax": False, "num_hidden_layers": 2},
        ),
        "smallthinker-windows": (
            "SmallThinkerForCausalLM",
            sizes
            | {"moe_primary_router_apply_softmax": True, "sliding_window_size": 5}
            | {"rope_layout": [0, 1, 1], "sliding_window_layout": [0, 1, 1]},
        ),
    }

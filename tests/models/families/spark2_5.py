"""Rows of spark2_5."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("spark2_5",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.sized("spark2_5", head_dim=12, hidden_act="gelu", sliding_window=5)
    sizes |= {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    sizes |= {"rms_norm_eps": 1e-5, "gate_attn_act_mode": "sigmoid"}
    sizes["rope_parameters"] = {
        "full_attention": {"rope_theta": 900.0, "partial_rotary_factor": 0.5},
        "sliding_attention": {"rope_theta": 500.0, "partial_rotary_factor": 1.0},
    }
    return {
        "spark2_5": ("Spark2_5ForCausalLM", sizes | {"headwise_attn_output_gate": True}),
    }

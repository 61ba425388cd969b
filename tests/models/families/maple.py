"""Rows of maple."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("maple",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.sized("maple", head_dim=10, moe_intermediate_size=24, num_experts=5)
    sizes |= {"num_experts_per_tok": 2, "sliding_window": 5, "rope_theta": 500.0}
    sizes |= {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    sizes |= {"rms_norm_eps": 1e-5, "partial_rotary_factor": 0.4}
    return {
        "maple": ("MapleForCausalLM", sizes),
    }

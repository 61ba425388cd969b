"""Rows of plm."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.latent("plm", rope_theta=500.0, rms_norm_eps=1e-6, tie_word_embeddings=True)
    sizes |= {"qk_nope_head_dim": 8, "v_head_dim": 10}
    return {
        "plm": ("PLMForCausalLM", sizes | {"hidden_act": "relu2"}),
    }

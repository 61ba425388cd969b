"""Rows of mobilellm."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.sized("mobilellm", attention_bias=True, rope_theta=500.0, rms_norm_eps=1e-5)
    del sizes["tie_word_embeddings"]
    return {
        "mobilellm": ("MobileLLMForCausalLM", sizes | {"share_embedding": True}),
    }

"""Rows of gptj."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gptj": ("GPTJForCausalLM", t.gpt("gptj", rotary_dim=4)),
        "gptj-tied": ("GPTJForCausalLM", t.gpt("gptj", rotary_dim=10, n_inner=40)),
    }

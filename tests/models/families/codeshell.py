"""Rows of codeshell."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("codeshell",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.gpt("codeshell", n_head=6, n_inner=56, n_layer=2, num_query_groups=3)
    sizes |= {"tie_word_embeddings": False, "layer_norm_epsilon": 1e-5}
    return {
        "codeshell": ("CodeShellForCausalLM", sizes),
    }

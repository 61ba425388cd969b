"""Rows of gpt_refact."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("refact",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.gpt("gpt_refact", n_head=6, n_layer=2, n_positions=64, layer_norm_epsilon=1e-5)
    return {
        "refact": ("GPTRefactForCausalLM", sizes | {"tie_word_embeddings": False}),
    }

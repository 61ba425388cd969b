"""Rows of maincoder."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("maincoder",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.sized("maincoder", head_dim=10, rope_theta=500.0, rms_norm_eps=1e-5)
    return {
        "maincoder": ("MaincoderForCausalLM", sizes | {"tie_word_embeddings": True}),
    }

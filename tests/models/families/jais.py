"""Rows of jais."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("jais-plain",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of the hub's code and config.json of each row; `t` is families.py."""
    sizes = t.gpt("jais", n_inner=56, layer_norm_epsilon=1e-5, activation_function="swiglu")
    sizes |= {"position_embedding_type": "alibi"}
    return {
        "jais": (
            "JAISLMHeadModel",
            sizes
            | {"mup_embeddings_scale": 3.5, "mup_output_alpha": 2.2, "mup_width_scale": 0.4}
            | {"mup_scale_qk_dot_by_d": True, "n_head": 6, "tie_word_embeddings": True},
        ),
        "jais-plain": (
            "JAISLMHeadModel",
            sizes
            | {"embeddings_scale": 1.0, "width_scale": 1.0, "scale_qk_dot_by_d": True}
            | {"n_layer": 2, "tie_word_embeddings": False},
        ),
    }

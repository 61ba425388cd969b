"""Rows of opt."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "opt": ("OPTForCausalLM", t.opt()),
        "opt-projected": (
            "OPTForCausalLM",
            t.opt(
                do_layer_norm_before=False,
                word_embed_proj_dim=20,
                activation_function="gelu",
                tie_word_embeddings=False,
            ),
        ),
        "opt-plain": (
            "OPTForCausalLM",
            t.opt(
                enable_bias=False,
                layer_norm_elementwise_affine=False,
                _remove_final_layer_norm=True,
                word_embed_proj_dim=64,
            ),
        ),
    }

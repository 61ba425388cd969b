"""Rows of bamba."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "bamba": (
            "BambaForCausalLM",
            t.sized(
                "bamba",
                attn_layer_indices=[1],
                mamba_n_heads=8,
                mamba_d_state=9,
                mamba_n_groups=2,
            ),
        ),
        "bamba-biases": (
            "BambaForCausalLM",
            t.sized(
                "bamba",
                attn_layer_indices=[0],
                num_hidden_layers=2,
                mamba_n_heads=4,
                mamba_d_head=12,
                mamba_expand=1,
                mamba_d_state=7,
                mamba_d_conv=3,
                mamba_conv_bias=False,
                mamba_proj_bias=True,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                time_step_limit=[0.05, 0.8],
                rope_parameters=t.LINEAR,
            ),
        ),
    }

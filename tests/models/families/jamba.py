"""Rows of jamba."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("jamba",)
KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "jamba": (
            "JambaForCausalLM",
            t.sized(
                "jamba",
                num_experts=5,
                expert_layer_period=2,
                expert_layer_offset=1,
                attn_layer_period=3,
                attn_layer_offset=1,
                mamba_d_state=7,
            ),
        ),
        "jamba-biases": (
            "JambaForCausalLM",
            t.sized(
                "jamba",
                num_hidden_layers=2,
                num_experts=3,
                num_experts_per_tok=1,
                expert_layer_offset=0,
                attn_layer_period=2,
                attn_layer_offset=1,
                mamba_d_state=5,
                mamba_d_conv=3,
                mamba_expand=1,
                mamba_dt_rank=6,
                mamba_conv_bias=False,
                mamba_proj_bias=True,
                tie_word_embeddings=True,
            ),
        ),
    }

"""Rows of zamba."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {
        "vocab_size": 131,
        "hidden_size": 48,
        "intermediate_size": 56,
        "model_type": "zamba",
        "max_position_embeddings": 64,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    return {
        "zamba": (
            "ZambaForCausalLM",
            {
                **sizes,
                "num_hidden_layers": 3,
                "layers_block_type": ["mamba", "hybrid", "hybrid"],
                "num_attention_heads": 6,
                "num_key_value_heads": 6,
                "mamba_d_state": 5,
            },
        ),
        "zamba-biases": (
            "ZambaForCausalLM",
            {
                **sizes,
                "num_hidden_layers": 4,
                "attn_layer_period": 2,
                "attn_layer_offset": 0,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "attention_head_dim": 10,
                "n_mamba_heads": 3,
                "mamba_d_state": 7,
                "mamba_d_conv": 3,
                "mamba_expand": 1,
                "mamba_dt_rank": 4,
                "mamba_conv_bias": False,
                "mamba_proj_bias": True,
                "hidden_act": "silu",
                "hidden_mamba_act": "gelu",
                "tie_word_embeddings": False,
            },
        ),
    }

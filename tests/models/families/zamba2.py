"""Rows of zamba2."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {
        "vocab_size": 131,
        "hidden_size": 48,
        "intermediate_size": 56,
        "model_type": "zamba2",
        "max_position_embeddings": 64,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    return {
        "zamba2": (
            "Zamba2ForCausalLM",
            {
                **sizes,
                "num_hidden_layers": 4,
                "layers_block_type": ["mamba", "hybrid", "hybrid", "hybrid"],
                "num_attention_heads": 6,
                "num_key_value_heads": 6,
                "n_mamba_heads": 8,
                "mamba_ngroups": 2,
                "mamba_d_state": 5,
                "num_mem_blocks": 2,
                "use_shared_attention_adapter": True,
                "adapter_rank": 3,
                "use_mem_rope": True,
                "time_step_min": 0.2,
            },
        ),
        "zamba2-biases": (
            "Zamba2ForCausalLM",
            {
                **sizes,
                "num_hidden_layers": 2,
                "layers_block_type": ["mamba", "hybrid"],
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "n_mamba_heads": 4,
                "mamba_d_state": 7,
                "mamba_d_conv": 3,
                "mamba_expand": 1,
                "add_bias_linear": True,
                "adapter_rank": 5,
                "hidden_act": "silu",
                "use_long_context": True,
                "tie_word_embeddings": False,
            },
        ),
    }

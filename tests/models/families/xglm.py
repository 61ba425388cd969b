"""Rows of xglm."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "xglm": (
            "XGLMForCausalLM",
            {
                "model_type": "xglm",
                "vocab_size": 131,
                "d_model": 48,
                "ffn_dim": 56,
                "num_layers": 3,
                "attention_heads": 6,
                "max_position_embeddings": 64,
                "eos_token_id": None,
                "pad_token_id": 1,
            },
        ),
        "xglm-plain": (
            "XGLMForCausalLM",
            {
                "model_type": "xglm",
                "vocab_size": 131,
                "d_model": 48,
                "ffn_dim": 56,
                "num_layers": 2,
                "attention_heads": 4,
                "max_position_embeddings": 32,
                "scale_embedding": False,
                "activation_function": "relu",
                "tie_word_embeddings": False,
                "eos_token_id": None,
            },
        ),
    }

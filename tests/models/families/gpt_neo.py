"""Rows of gpt_neo."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gpt_neo": (
            "GPTNeoForCausalLM",
            {
                "model_type": "gpt_neo",
                "vocab_size": 131,
                "hidden_size": 48,
                "num_layers": 3,
                "num_heads": 4,
                "max_position_embeddings": 32,
                "window_size": 5,
                "eos_token_id": None,
                "bos_token_id": None,
                "attention_types": [[["global", "local", "local"], 1]],
            },
        ),
        "gpt_neo-inner": (
            "GPTNeoForCausalLM",
            {
                "model_type": "gpt_neo",
                "vocab_size": 131,
                "hidden_size": 48,
                "num_layers": 2,
                "num_heads": 3,
                "max_position_embeddings": 24,
                "window_size": 3,
                "eos_token_id": None,
                "bos_token_id": None,
                "attention_types": [[["local"], 2]],
                "intermediate_size": 40,
                "activation_function": "gelu",
                "tie_word_embeddings": False,
            },
        ),
    }

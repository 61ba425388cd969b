"""Rows of llama."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "llama",
    "llama-biases",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "llama": (
            "LlamaForCausalLM",
            {
                "model_type": "llama",
                "vocab_size": 64,
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "max_position_embeddings": 64,
                "tie_word_embeddings": False,
                "eos_token_id": None,
            },
        ),
        "llama-biases": (
            "LlamaForCausalLM",
            t.sized(
                "llama",
                tie_word_embeddings=True,
                attention_bias=True,
                mlp_bias=True,
                head_dim=12,
                rope_parameters=t.LLAMA3,
            ),
        ),
    }

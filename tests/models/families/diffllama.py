"""Rows of diffllama."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "diffllama": ("DiffLlamaForCausalLM", t.sized("diffllama", num_attention_heads=4)),
        "diffllama-biases": (
            "DiffLlamaForCausalLM",
            t.sized(
                "diffllama",
                num_attention_heads=8,
                num_key_value_heads=4,
                head_dim=10,
                attention_bias=True,
                tie_word_embeddings=True,
                rope_parameters=t.LLAMA3,
            ),
        ),
    }

"""Rows of exaone."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("exaone",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "exaone": ("LlamaForCausalLM", t.sized("exaone", rope_parameters=t.LLAMA3)),
        "exaone-biases": (
            "LlamaForCausalLM",
            t.sized(
                "exaone",
                head_dim=12,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
            ),
        ),
    }

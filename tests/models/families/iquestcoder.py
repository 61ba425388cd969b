"""Rows of iquestcoder."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("iquestcoder",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "iquestcoder": ("LlamaForCausalLM", t.sized("iquestcoder", head_dim=12)),
        "iquestcoder-biases": (
            "LlamaForCausalLM",
            t.sized(
                "iquestcoder",
                head_dim=8,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of apertus."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("apertus",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "apertus": ("ApertusForCausalLM", t.sized("apertus")),
        "apertus-relu": (
            "ApertusForCausalLM",
            t.sized(
                "apertus",
                hidden_act="relu2",
                attention_bias=True,
                tie_word_embeddings=True,
                rope_parameters=t.LLAMA3,
            ),
        ),
    }

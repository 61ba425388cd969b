"""Rows of gpt_bigcode."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("gpt_bigcode",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gpt_bigcode": ("GPTBigCodeForCausalLM", t.gpt("gpt_bigcode")),
        "gpt_bigcode-heads": (
            "GPTBigCodeForCausalLM",
            t.gpt(
                "gpt_bigcode",
                multi_query=False,
                n_inner=40,
                tie_word_embeddings=False,
            ),
        ),
    }

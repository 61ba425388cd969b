"""Rows of apertus1p5_text."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "apertus1p5_text": (
            "Apertus1p5TextForCausalLM",
            t.sized("apertus1p5_text", output_vocab_size=100, attention_bias=True),
        ),
    }

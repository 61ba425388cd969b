"""Rows of bitnet."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("bitnet-tied",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "bitnet": (
            "BitNetForCausalLM",
            t.sized("bitnet", attention_bias=True, rope_parameters=t.LINEAR),
        ),
        "bitnet-tied": (
            "BitNetForCausalLM",
            t.sized("bitnet", hidden_act="silu", tie_word_embeddings=True, num_hidden_layers=2),
        ),
    }

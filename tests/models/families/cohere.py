"""Rows of cohere."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("cohere",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "cohere": ("CohereForCausalLM", t.sized("cohere", tie_word_embeddings=True)),
        "cohere-biases": (
            "CohereForCausalLM",
            t.sized("cohere", attention_bias=True, logit_scale=0.5, rope_parameters=t.LINEAR),
        ),
        "cohere-norms": ("CohereForCausalLM", t.sized("cohere", use_qk_norm=True)),
    }

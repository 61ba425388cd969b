"""Rows of openai-gpt."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "openai-gpt": ("OpenAIGPTLMHeadModel", {"model_type": "openai-gpt", **t.GPT}),
        "openai-gpt-untied": (
            "OpenAIGPTLMHeadModel",
            {
                "model_type": "openai-gpt",
                **t.GPT,
                "n_head": 6,
                "afn": "swish",
                "layer_norm_epsilon": 1e-3,
                "tie_word_embeddings": False,
            },
        ),
    }

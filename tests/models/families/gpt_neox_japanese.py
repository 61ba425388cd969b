"""Rows of gpt_neox_japanese."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gpt_neox_japanese": (
            "GPTNeoXJapaneseForCausalLM",
            {"model_type": "gpt_neox_japanese", **t.FALCON, "intermediate_multiple_size": 2},
        ),
        "gpt_neox_japanese-tied": (
            "GPTNeoXJapaneseForCausalLM",
            {
                "model_type": "gpt_neox_japanese",
                **t.FALCON,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "tie_word_embeddings": True,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 900.0,
                    "partial_rotary_factor": 0.5,
                },
            },
        ),
    }

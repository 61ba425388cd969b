"""Rows of cohere_compass_text."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    return {
        "cohere_compass_text": (
            "CohereCompassForCausalLM",
            t.sized(
                "cohere_compass_text",
                tie_word_embeddings=True,
                sliding_window=4,
                layer_types=kinds,
                rope_parameters={
                    "sliding_attention": {"rope_type": "default", "rope_theta": 700.0},
                    "full_attention": None,
                },
            ),
        ),
        "cohere_compass_text-scaled": (
            "CohereCompassForCausalLM",
            t.sized(
                "cohere_compass_text",
                num_hidden_layers=2,
                attention_bias=True,
                logit_scale=0.25,
                sliding_window=5,
                layer_types=kinds[:2],
                rope_parameters={
                    "sliding_attention": {"rope_type": "default", "rope_theta": 700.0},
                    "full_attention": t.LINEAR,
                },
            ),
        ),
    }

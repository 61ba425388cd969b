"""Rows of olmo2, olmo3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "olmo2",
    "olmo3",
    "olmo3-scaled",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "olmo2": ("Olmo2ForCausalLM", t.sized("olmo2")),
        "olmo2-biases": (
            "Olmo2ForCausalLM",
            t.sized("olmo2", attention_bias=True, tie_word_embeddings=True, rope_parameters=t.YARN),
        ),
        "olmo3": ("Olmo3ForCausalLM", t.sized("olmo3", sliding_window=4, num_hidden_layers=5)),
        "olmo3-scaled": (
            "Olmo3ForCausalLM",
            t.sized(
                "olmo3",
                sliding_window=6,
                rope_parameters={
                    "full_attention": t.YARN,
                    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
                },
                layer_types=["full_attention", "sliding_attention", "sliding_attention"],
            ),
        ),
    }

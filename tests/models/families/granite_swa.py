"""Rows of granite_swa."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("granite_swa-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "granite_swa": (
            "GraniteSWAForCausalLM",
            t.sized(
                "granite_swa",
                num_hidden_layers=5,
                sliding_window=4,
                embedding_multiplier=6.0,
                logits_scaling=3.0,
                residual_multiplier=0.3,
                attention_multiplier=0.2,
            ),
        ),
        "granite_swa-gguf": (
            "GraniteSWAForCausalLM",
            t.sized(
                "granite_swa",
                num_hidden_layers=2,
                sliding_window=4,
                layer_types=["sliding_attention", "full_attention"],
                layer_rope_theta=[500.0, 0.0],
                rope_theta=500.0,
                logits_scaling=3.0,
                residual_multiplier=0.3,
                attention_multiplier=0.2,
            ),
        ),
        "granite_swa-bases": (
            "GraniteSWAForCausalLM",
            t.sized(
                "granite_swa",
                sliding_window=5,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                layer_rope_theta=[10000.0, 0, 500.0],
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of helium."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "helium": ("HeliumForCausalLM", t.sized("helium", head_dim=8)),
        "helium-biases": (
            "HeliumForCausalLM",
            t.sized(
                "helium",
                head_dim=12,
                num_attention_heads=4,
                num_key_value_heads=4,
                tie_word_embeddings=True,
                attention_bias=True,
                mlp_bias=True,
                rope_parameters=t.YARN,
            ),
        ),
    }

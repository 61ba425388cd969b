"""Rows of smollm3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("smollm3",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "smollm3": (
            "SmolLM3ForCausalLM",
            t.sized("smollm3", num_hidden_layers=5, tie_word_embeddings=True),
        ),
        "smollm3-windows": (
            "SmolLM3ForCausalLM",
            t.sized(
                "smollm3",
                no_rope_layers=[0, 1, 1],
                use_sliding_window=True,
                sliding_window=5,
                attention_bias=True,
                mlp_bias=True,
                rope_parameters=t.YARN,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            ),
        ),
    }

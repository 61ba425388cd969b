"""Rows of lfm2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("lfm2",)

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "lfm2": (
            "Lfm2ForCausalLM",
            t.sized(
                "lfm2",
                layer_types=["conv", "full_attention", "conv"],
                block_multiple_of=8,
                tie_word_embeddings=True,
            ),
        ),
        "lfm2-biases": (
            "Lfm2ForCausalLM",
            t.sized(
                "lfm2",
                full_attn_idxs=[2],
                conv_bias=True,
                conv_L_cache=5,
                rope_parameters=t.YARN,
                block_auto_adjust_ff_dim=False,
            ),
        ),
    }

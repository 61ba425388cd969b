"""Rows of t5, mt5, umt5."""

from typing import Any

KIND = "text_to_text"
# Rows that a GGUF file can say.
GGUF = ("t5",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "t5": ("T5ForConditionalGeneration", t.t5("t5")),
        "t5-gated": (
            "T5ForConditionalGeneration",
            t.t5(
                "t5",
                tie_word_embeddings=False,
                feed_forward_proj="gated-gelu",
                num_decoder_layers=3,
                relative_attention_num_buckets=10,
                relative_attention_max_distance=11,
            ),
        ),
        "mt5": ("MT5ForConditionalGeneration", t.t5("mt5", num_decoder_layers=1)),
        "umt5": (
            "UMT5ForConditionalGeneration",
            t.t5(
                "umt5",
                feed_forward_proj="gated-silu",
                relative_attention_num_buckets=8,
            ),
        ),
    }

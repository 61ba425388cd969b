"""Rows of longt5."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "longt5": (
            "LongT5ForConditionalGeneration",
            t.t5("longt5", local_radius=2, tie_word_embeddings=False),
        ),
        "longt5-global": (
            "LongT5ForConditionalGeneration",
            t.t5(
                "longt5",
                encoder_attention_type="transient-global",
                local_radius=3,
                global_block_size=4,
                feed_forward_proj="gated-gelu",
                relative_attention_num_buckets=8,
                relative_attention_max_distance=9,
            ),
        ),
    }

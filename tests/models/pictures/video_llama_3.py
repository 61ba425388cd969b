"""A row of VideoLLaMA 3."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<|image_pad|>", "<|video_pad|>")


def rows(t: Any) -> dict[str, Any]:
    """The row; `t` is seeing.py."""
    return {
        "video_llama_3": t.Row(
            "VideoLlama3ForConditionalGeneration",
            {"model_type": "video_llama_3", "text_config": {**t.TEXT, "model_type": "qwen2"},
             "vision_config": {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 2,
                               "num_attention_heads": 2, "patch_size": 4},
             "image_token_id": 256, "video_token_id": 257},
            SPECIAL,
            ("VideoLlama3ImageProcessorPil",
             {"patch_size": 4, "merge_size": 2,
              "size": {"shortest_edge": 256, "longest_edge": 800}}),
            ("VideoLlama3Processor", {}), "<|image_pad|>What? <|image_pad|>",
            videos="pictures",
        ),
    }  # fmt: skip

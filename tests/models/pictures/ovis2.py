"""Rows of Ovis 2."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image>", "<IMG_ATOM>", "<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>",
           "<IMG_END>")  # fmt: skip


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3, "vocab_size": 37,
             "num_attention_heads": 2, "image_size": 16, "patch_size": 4, "hidden_stride": 2,
             "qkv_bias": True, "mlp_bias": True}  # fmt: skip
    cut = {"size": {"height": 16, "width": 16}, "crop_to_patches": True, "max_patches": 4}
    return {
        "ovis2": t.Row(
            "Ovis2ForConditionalGeneration",
            {"model_type": "ovis2", "text_config": {**t.TEXT, "model_type": "qwen2"},
             "vision_config": tower, "image_token_id": 257, "hidden_size": 48, "vocab_size": 300,
             "visual_indicator_token_ids": [258, 259, 260, 261, 262]},
            SPECIAL, ("Ovis2ImageProcessorPil", cut), ("Ovis2Processor", {"image_seq_length": 4}),
            "<image>\nWhat? <image>", ((30, 60), (18, 19)),
        ),
    }  # fmt: skip

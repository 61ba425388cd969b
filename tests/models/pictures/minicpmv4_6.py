"""Rows of MiniCPM-V 4.6."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<|image_pad|>", "<image>", "</image>", "<slice>", "</slice>", "<image_id>",
           "</image_id>", "<|video_pad|>")  # fmt: skip


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3,
             "num_attention_heads": 2, "image_size": 20, "patch_size": 4}  # fmt: skip
    text = {**t.TEXT, "model_type": "qwen3_5_text", "head_dim": 16, "linear_key_head_dim": 8,
            "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"]}  # fmt: skip
    names = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>",
             "image_token_id": 256, "video_token_id": 263,
             "image_start_token": "<image>", "image_end_token": "</image>",
             "slice_start_token": "<slice>", "slice_end_token": "</slice>",
             "image_id_start_token": "<image_id>",
             "image_id_end_token": "</image_id>", "pad_token": "<|video_pad|>"}  # fmt: skip
    cut = {"patch_size": 4, "scale_resolution": 24, "max_slice_nums": 4}
    return {
        "minicpmv4_6": t.Row(
            "MiniCPMV4_6ForConditionalGeneration",
            {"model_type": "minicpmv4_6", "text_config": text, "vision_config": tower,
             "image_token_id": 256, "video_token_id": 263, "insert_layer_id": 1},
            SPECIAL, ("MiniCPMV4_6ImageProcessorPil", cut), ("MiniCPMV4_6Processor", {}),
            "<|image_pad|>\nWhat?", ((30, 50),), names, videos="pictures",
            everywhere=False,
        ),
    }  # fmt: skip

"""Rows of Mistral Small 3.1 and LightOnOCR."""

from __future__ import annotations

from typing import Any

SPECIAL = ("[IMG]", "[IMG_BREAK]", "[IMG_END]", "<|image_pad|>")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"model_type": "pixtral", "hidden_size": 24, "num_hidden_layers": 3,
             "intermediate_size": 20, "num_attention_heads": 3, "patch_size": 4, "image_size": 40,
             "rope_theta": 100.0, "hidden_act": "silu"}  # fmt: skip
    return {
        "mistral3": t.Row(
            "Mistral3ForConditionalGeneration",
            {"model_type": "mistral3", "text_config": {**t.TEXT, "model_type": "mistral"},
             "vision_config": tower, "image_token_index": 256, "tie_word_embeddings": False,
             "vision_feature_layer": -2},
            SPECIAL,
            ("PixtralImageProcessorPil", {"size": {"longest_edge": 40}, "patch_size": 4}),
            ("PixtralProcessor", {"patch_size": 4, "spatial_merge_size": 2}),
            "See [IMG] and [IMG].", ((30, 40), (50, 21)),
        ),
        "lighton_ocr": t.Row(
            "LightOnOcrForConditionalGeneration",
            {"model_type": "lighton_ocr", "text_config": {**t.TEXT, "model_type": "qwen3"},
             "vision_config": tower, "image_token_id": 259},
            SPECIAL,
            ("PixtralImageProcessorPil", {"size": {"longest_edge": 40}, "patch_size": 8}),
            ("LightOnOcrProcessor", {"patch_size": 4, "spatial_merge_size": 2}),
            "<|image_pad|>Read! <|image_pad|>", ((30, 40), (50, 21)),
            {"image_token": "<|image_pad|>", "image_break_token": "[IMG_BREAK]",
             "image_end_token": "[IMG_END]"},
        ),
    }  # fmt: skip

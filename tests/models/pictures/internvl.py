"""Rows of InternVL, Qianfan-OCR, Aya Vision and Command A Vision."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<img>", "</img>", "<IMG_CONTEXT>", "<video>", "<|end|>")
COHERE = ("<image>", "<|IMG_PATCH|>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "TILE", "TILE_GLOBAL",
          "<|IMG_LINE_BREAK|>", "<|pad|>")  # fmt: skip


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3,
             "num_attention_heads": 2, "image_size": [16, 16], "patch_size": [4, 4]}  # fmt: skip
    siglip = {**tower, "model_type": "siglip_vision_model", "image_size": 16, "patch_size": 4,
              "vision_use_head": False}  # fmt: skip
    cut = {"size": {"height": 16, "width": 16}, "crop_to_patches": True, "max_patches": 4}
    names = {"start_image_token": "<img>", "end_image_token": "</img>",
             "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}  # fmt: skip
    cohere = {
        "boi_token": "<|START_OF_IMG|>",
        "eoi_token": "<|END_OF_IMG|>",
        "image_token": "<|IMG_PATCH|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    }
    pad = {"pad_token": "<|pad|>"}
    text = "<IMG_CONTEXT>\nWhat? <IMG_CONTEXT> And this?"
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    within = {**t.TEXT, "model_type": "cohere2", "sliding_window": 30, "logit_scale": 0.5,
              "layer_types": kinds}  # fmt: skip
    return {
        "internvl": t.Row(
            "InternVLForConditionalGeneration",
            {"model_type": "internvl", "text_config": {**t.TEXT, "model_type": "qwen2"},
             "vision_config": tower, "image_token_id": 258, "tie_word_embeddings": False},
            SPECIAL, ("GotOcr2ImageProcessorPil", cut),
            ("InternVLProcessor", {"image_seq_length": 4}), text, ((30, 40), (20, 57)), names,
        ),
        "qianfan_ocr": t.Row(
            "QianfanOCRForConditionalGeneration",
            {"model_type": "qianfan_ocr", "text_config": {**t.TEXT, "model_type": "qwen3"},
             "vision_config": {**tower, "use_qk_norm": True}, "image_token_id": 258,
             "tie_word_embeddings": False},
            (*SPECIAL, "<image>"), ("GotOcr2ImageProcessorPil", cut),
            ("QianfanOCRProcessor", {"image_seq_length": 4}), "What? <image> And this?",
            ((20, 57),), names,
        ),
        "internvl-rms": t.Row(
            "InternVLForConditionalGeneration",
            {"model_type": "internvl", "text_config": {**t.TEXT, "model_type": "qwen3"},
             "vision_config": {**tower, "norm_type": "rms_norm", "use_qk_norm": True,
                               "attention_bias": True, "use_mask_token": True,
                               "use_mean_pooling": False},
             "image_token_id": 258, "projector_hidden_act": "relu"},
            SPECIAL, ("GotOcr2ImageProcessorPil", {**cut, "crop_to_patches": False}),
            ("InternVLProcessor", {"image_seq_length": 4}), text, ((17, 17), (90, 20)), names,
        ),
        "aya_vision": t.Row(
            "AyaVisionForConditionalGeneration",
            {"model_type": "aya_vision", "text_config": within,
             "vision_config": {**siglip, "vision_use_head": True}, "image_token_index": 257,
             "alignment_intermediate_size": 36},
            COHERE, ("GotOcr2ImageProcessorPil", cut),
            ("AyaVisionProcessor", {"patch_size": 4, "img_size": 16, "downsample_factor": 2}),
            "<image>What? <image>", ((30, 40), (24, 24)), pad,
        ),
        "cohere2_vision": t.Row(
            "Cohere2VisionForConditionalGeneration",
            {"model_type": "cohere2_vision", "text_config": within, "vision_config": siglip,
             "image_token_id": 257, "alignment_intermediate_size": 40},
            COHERE, ("Cohere2VisionImageProcessor", {**cut, "patch_size": 2}),
            ("Cohere2VisionProcessor", {}), "<|IMG_PATCH|>What? <|IMG_PATCH|>",
            ((30, 20), (20, 57)), cohere | pad,
        ),
    }  # fmt: skip

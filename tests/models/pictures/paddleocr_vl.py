"""Rows of PaddleOCR-VL."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<|IMAGE_START|>", "<|IMAGE_END|>", "<|IMAGE_PLACEHOLDER|>")
TEXT = "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>OCR: <|IMAGE_PLACEHOLDER|>."


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 4, "hidden_size": 24,
             "intermediate_size": 28, "image_size": 20}  # fmt: skip
    patches = {"patch_size": 4, "merge_size": 2,
               "size": {"shortest_edge": 256, "longest_edge": 800}}  # fmt: skip
    text = {**t.TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                          "mrope_section": [1, 3, 2]}}  # fmt: skip

    def row(**more: Any) -> Any:
        return t.Row(
            "PaddleOCRVLForConditionalGeneration",
            {"model_type": "paddleocr_vl", "image_token_id": 258, "text_config": {**text, **more},
             "vision_config": tower, "tie_word_embeddings": not more},
            SPECIAL, ("PaddleOCRVLImageProcessorPil", patches), ("PaddleOCRVLProcessor", {}), TEXT,
            tokens={"image_token": "<|IMAGE_PLACEHOLDER|>"},
        )  # fmt: skip

    return {"paddleocr_vl": row(), "paddleocr_vl-biases": row(use_bias=True)}

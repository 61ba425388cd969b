"""Rows of GOT-OCR 2 and PP-Chart2Table."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<img>", "</img>", "<imgpad>", "<|im_start|>", "<|im_end|>")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"hidden_size": 24, "output_channels": 12, "num_hidden_layers": 3, "mlp_dim": 20,
             "num_attention_heads": 2, "image_size": 32, "patch_size": 4, "window_size": 3,
             "global_attn_indexes": [1]}  # fmt: skip
    text = {**t.TEXT, "model_type": "qwen2"}
    size = {"size": {"height": 32, "width": 32}}
    return {
        "got_ocr2": t.Row(
            "GotOcr2ForConditionalGeneration",
            {"model_type": "got_ocr2", "text_config": text, "vision_config": tower,
             "image_token_index": 258},
            SPECIAL, ("GotOcr2ImageProcessorPil", size), ("GotOcr2Processor", {}),
            "<img><imgpad></img>\nWhat? <imgpad>", call={"num_image_tokens": 4},
        ),
        "pp_chart2table": t.Row(
            "GotOcr2ForConditionalGeneration",
            {"model_type": "pp_chart2table", "text_config": text, "image_token_index": 258,
             "vision_config": {**tower, "use_abs_pos": False, "use_rel_pos": False,
                               "qkv_bias": False, "hidden_act": "relu", "image_size": 16},
             "tie_word_embeddings": False},
            SPECIAL, ("PPChart2TableImageProcessorPil", {"size": {"height": 16, "width": 16}}),
            ("PPChart2TableProcessor", {}), "<img><imgpad></img>\nChart to table",
            ((30, 40),),
        ),
    }  # fmt: skip

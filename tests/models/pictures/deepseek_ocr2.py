"""Rows of DeepSeek-OCR 2, whose queries are 144 at least."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image>", "<|end|>")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    text = {**t.TEXT, "model_type": "deepseek_ocr2_text", "max_position_embeddings": 1024,
            "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
            "moe_intermediate_size": 20, "routed_scaling_factor": 1.5,
            "mlp_layer_types": ["dense", "sparse", "sparse"]}  # fmt: skip
    sam = {"hidden_size": 24, "output_channels": 6, "num_hidden_layers": 2, "mlp_dim": 20,
           "num_attention_heads": 2, "image_size": 32, "patch_size": 4, "window_size": 3,
           "global_attn_indexes": [1], "downsample_channels": [8, 24]}  # fmt: skip
    queries = {"hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
               "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
    return {
        "deepseek_ocr2": t.Row(
            "DeepseekOcr2ForConditionalGeneration",
            {"model_type": "deepseek_ocr2", "text_config": text, "image_token_id": 256,
             "vision_config": {"sam_config": sam, "encoder_config": queries}},
            SPECIAL,
            ("DeepseekOcr2ImageProcessorPil",
             {"size": {"height": 20, "width": 20}, "tile_size": 20}),
            ("DeepseekOcr2Processor", {"patch_size": 1.7, "downsample_ratio": 1}),
            "<image>\nText? <image>", ((12, 20), (15, 30)),
            everywhere=False,
        ),
    }  # fmt: skip

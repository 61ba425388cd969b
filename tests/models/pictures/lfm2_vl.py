"""Rows of LFM2-VL."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>",
           *(f"<|img_row_{i}_col_{j}|>" for i in (1, 2, 3) for j in (1, 2)))  # fmt: skip


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {
        "model_type": "siglip2_vision_model",
        "hidden_size": 24,
        "intermediate_size": 28,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "patch_size": 4,
        "num_patches": 25,
    }
    text = {**t.TEXT, "model_type": "lfm2", "conv_L_cache": 3, "block_multiple_of": 8,
            "layer_types": ["conv", "full_attention", "conv"]}  # fmt: skip
    config = {"model_type": "lfm2_vl", "text_config": text, "image_token_id": 256,
              "projector_hidden_size": 30}  # fmt: skip
    cut = {"encoder_patch_size": 4, "tile_size": 16, "min_image_tokens": 4, "max_image_tokens": 6,
           "max_tiles": 4}  # fmt: skip
    prompt = "<image>What? <image>"
    return {
        "lfm2_vl": t.Row(
            "Lfm2VlForConditionalGeneration",
            {**config, "vision_config": {**tower, "vision_use_head": False}},
            SPECIAL, ("Lfm2VlImageProcessor", cut), ("Lfm2VlProcessor", {}), prompt,
            ((12, 30), (50, 21)),
        ),
        "lfm2_vl-whole": t.Row(
            "Lfm2VlForConditionalGeneration",
            {**config, "vision_config": tower, "projector_use_layernorm": False,
             "projector_bias": False, "tie_word_embeddings": False},
            SPECIAL, ("Lfm2VlImageProcessor", {**cut, "do_image_splitting": False}),
            ("Lfm2VlProcessor", {}), prompt,
        ),
    }  # fmt: skip

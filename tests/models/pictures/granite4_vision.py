"""Rows of Granite 4 Vision."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image>", "<|end|>")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"model_type": "siglip_vision_model", "hidden_size": 64, "intermediate_size": 28,
             "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 16, "patch_size": 4,
             "vision_use_head": False}  # fmt: skip
    text = {**t.TEXT, "model_type": "granite4_vision_text", "residual_multiplier": 0.7,
            "embedding_multiplier": 3.0, "logits_scaling": 2.0, "num_hidden_layers": 5}  # fmt: skip
    del text["head_dim"]
    small = [[16, 32], [32, 16], [32, 32]]
    whole = {"patch_size": 4, "vision_feature_select_strategy": "full", "downsample_rate": "1/2"}
    config = {"model_type": "granite4_vision", "text_config": text, "image_token_index": 256,
              "image_grid_pinpoints": small, "downsample_rate": "1/2"}  # fmt: skip
    return {
        "granite4_vision": t.Row(
            "Granite4VisionForConditionalGeneration",
            {**config, "vision_config": tower, "vision_feature_select_strategy": "full",
             "deepstack_layer_map": [[-2, 3], [1, 0]], "spatial_target_layers": [4, 1],
             "spatial_vision_layer": -2, "qformer_config": {"intermediate_size": 20}},
            SPECIAL,
            ("LlavaNextImageProcessorPil", {"size": {"shortest_edge": 16}, "crop_size": 16,
                                            "image_grid_pinpoints": small}),
            ("Granite4VisionProcessor", whole), "<image>\nWhat? <image>", ((30, 40), (20, 57)),
            everywhere=False,
        ),
    }  # fmt: skip

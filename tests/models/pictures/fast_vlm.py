"""A row of FastVLM, whose tower fastvit_reference.py computes."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image>",)


def rows(t: Any) -> dict[str, Any]:
    """The row; `t` is seeing.py."""
    sizes = {"embed_dims": [4, 8, 16, 32, 64], "layers": [1, 2, 1, 1, 1],
             "mlp_ratios": [2, 3, 2, 2, 2]}  # fmt: skip
    return {
        "fast_vlm": t.Row(
            "FastVlmForConditionalGeneration",
            {"model_type": "fast_vlm", "text_config": {**t.TEXT, "model_type": "qwen2"},
             "vision_config": {"model_type": "timm_wrapper", "architecture": "fastvit_mci3",
                               "hidden_size": 128, "model_args": {**sizes, "inference_mode": True}},
             "image_token_index": 256, "tie_word_embeddings": False},
            SPECIAL,
            ("CLIPImageProcessorPil", {"size": {"shortest_edge": 128}, "image_mean": [0, 0, 0],
                                       "image_std": [1, 1, 1],
                                       "crop_size": {"height": 128, "width": 128}}),
            ("LlavaProcessor", {"patch_size": 64, "vision_feature_select_strategy": "full"}),
            "<image>What? <image>", ((30, 40), (50, 21)), everywhere=False,
        ),
    }  # fmt: skip

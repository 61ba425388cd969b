"""Rows of Qwen2-VL, Qwen2.5-VL and Qwen3-VL."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|im_end|>")
TEXT = (
    "Look: <|vision_start|><|image_pad|><|vision_end|> and "
    "<|vision_start|><|image_pad|><|vision_end|>! What?"
)
TOKENS = {"image_token_id": 258, "video_token_id": 259, "vision_start_token_id": 256,
          "vision_end_token_id": 257}  # fmt: skip


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"depth": 3, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2,
             "temporal_patch_size": 2}  # fmt: skip
    patches = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2,
               "size": {"shortest_edge": 256, "longest_edge": 800}}  # fmt: skip

    def row(kind: str, text: dict[str, Any], vision: dict[str, Any], **config: Any) -> Any:
        name = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL"}[kind]
        return t.Row(
            f"{name}ForConditionalGeneration",
            {"model_type": kind, **TOKENS, "text_config": {**t.TEXT, **text},
             "vision_config": {**tower, **vision}, **config},
            SPECIAL,
            ("Qwen2VLImageProcessorPil", patches),
            ("Qwen3VLProcessor" if kind == "qwen3_vl" else
             "Qwen2VLProcessor" if kind == "qwen2_vl" else "Qwen2_5_VLProcessor", {}),
            TEXT,
        )  # fmt: skip

    old = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                               "mrope_section": [1, 3, 2]}}  # fmt: skip
    return {
        "qwen2_vl": row(
            "qwen2_vl", old, {"embed_dim": 24, "hidden_size": 48, "mlp_ratio": 2},
            tie_word_embeddings=True,
        ),
        "qwen2_5_vl": row(
            "qwen2_5_vl", old,
            {"hidden_size": 24, "intermediate_size": 28, "out_hidden_size": 48, "window_size": 16,
             "fullatt_block_indexes": [1]},
        ),
        "qwen3_vl": row(
            "qwen3_vl", old,
            {"hidden_size": 24, "intermediate_size": 28, "out_hidden_size": 48,
             "num_position_embeddings": 25, "deepstack_visual_indexes": [0, 2]},
            tie_word_embeddings=True,
        ),
    }  # fmt: skip

"""Rows of Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5 and EXAONE 4.5."""

from __future__ import annotations

from dataclasses import replace
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
        name = {
            "qwen2_vl": "Qwen2VL",
            "qwen2_5_vl": "Qwen2_5_VL",
            "exaone4_5": "Exaone4_5_",
            "qwen3_vl": "Qwen3VL",
            "qwen3_vl_moe": "Qwen3VLMoe",
            "qwen3_5": "Qwen3_5",
            "qwen3_5_moe": "Qwen3_5Moe",
        }[kind]
        return t.Row(
            f"{name}ForConditionalGeneration",
            {"model_type": kind, **TOKENS, "text_config": {**t.TEXT, **text},
             "vision_config": {**tower, **vision}, **config},
            SPECIAL,
            ("Qwen2VLImageProcessorPil", patches),
            ("Qwen3VLProcessor" if kind.startswith("qwen3") else
             "Exaone4_5_Processor" if kind == "exaone4_5" else
             "Qwen2VLProcessor" if kind == "qwen2_vl" else "Qwen2_5_VLProcessor", {}),
            TEXT,
        )  # fmt: skip

    old = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                               "mrope_section": [1, 3, 2]}}  # fmt: skip
    third = {"hidden_size": 24, "intermediate_size": 28, "out_hidden_size": 48,
             "num_position_embeddings": 25}  # fmt: skip
    delta = {
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "head_dim": 16,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
        },
    }
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
               "shared_expert_intermediate_size": 12}  # fmt: skip
    exaone = row(
        "exaone4_5", {"model_type": "exaone4", "sliding_window": 20, "sliding_window_pattern": 2},
        {"hidden_size": 24, "intermediate_size": 28, "out_hidden_size": 48, "window_size": 16,
         "fullatt_block_indexes": [1], "num_key_value_heads": 1},
    )  # fmt: skip
    return {
        "exaone4_5": replace(exaone, text=TEXT.partition(" and")[0] + "!", sizes=((50, 21),)),
        "qwen3_vl_moe": row(
            "qwen3_vl_moe", {**old, **{k: experts[k] for k in list(experts)[:3]}},
            {**third, "deepstack_visual_indexes": [1]},
        ),
        "qwen3_5": row("qwen3_5", delta, third),
        "qwen3_5_moe": row("qwen3_5_moe", delta | experts, third, tie_word_embeddings=True),
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

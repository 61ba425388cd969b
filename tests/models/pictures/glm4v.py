"""Rows of GLM-4.1V, GLM-4.5V, GLM-4.6V and GLM-OCR."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

SPECIAL = ("<|begin_of_image|>", "<|end_of_image|>", "<|image|>", "<|video|>",
           "<|begin_of_video|>", "<|end_of_video|>")  # fmt: skip
TEXT = "<|begin_of_image|><|image|><|end_of_image|> and <|image|>! What?"


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"depth": 3, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2,
             "temporal_patch_size": 2, "hidden_size": 24, "intermediate_size": 28,
             "out_hidden_size": 48, "image_size": 20}  # fmt: skip
    patches = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2,
               "size": {"shortest_edge": 512, "longest_edge": 2000}}  # fmt: skip
    text = {**t.TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                          "partial_rotary_factor": 0.5,
                                          "mrope_section": [1, 1, 1]}}  # fmt: skip
    tokens = {"image_token_id": 258, "video_token_id": 259}

    def row(kind: str, name: str, whole: str, vision: dict[str, Any], **config: Any) -> Any:
        inner = kind if kind in ("glm_ocr", "glm4v_moe") else "glm4v"
        more = config.pop("text", {})
        return t.Row(
            f"{name}ForConditionalGeneration",
            {"model_type": kind, **tokens,
             "text_config": {**text, **more, "model_type": f"{inner}_text"},
             "vision_config": {**tower, **vision, "model_type": f"{inner}_vision"}, **config},
            SPECIAL, (f"{whole}ImageProcessorPil", patches), (f"{whole}Processor", {}), TEXT,
        )  # fmt: skip

    return {
        "glm4v": row("glm4v", "Glm4v", "Glm4v", {"attention_bias": True}),
        "glm46v": row("glm46v", "Glm46V", "Glm46V", {}, tie_word_embeddings=True),
        "glm4v_moe": replace(
            row("glm4v_moe", "Glm4vMoe", "Glm4v", {}, text={
                "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                "attention_bias": False, "routed_scaling_factor": 1.5, "norm_topk_prob": False,
            }), sizes=((30, 40),), text=TEXT.partition(" and")[0] + " What?",
        ),
        "glm_ocr": row("glm_ocr", "GlmOcr", "Glm46V", {}),
    }  # fmt: skip

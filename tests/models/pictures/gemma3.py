"""Rows of Gemma 3 and PaliGemma."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<start_of_image>", "<image_soft_token>", "<end_of_image>", "<bos>", "<image>")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"model_type": "siglip_vision_model", "hidden_size": 24, "intermediate_size": 28,
             "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 32, "patch_size": 4,
             "vision_use_head": False}  # fmt: skip
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    text = {**t.TEXT, "query_pre_attn_scalar": 12, "sliding_window": 10, "layer_types": kinds}
    names = {"boi_token": "<start_of_image>", "image_token": "<image_soft_token>",
             "eoi_token": "<end_of_image>"}  # fmt: skip
    size = {"size": {"height": 32, "width": 32}}
    prompt = "<start_of_image> Look, <start_of_image> and say."
    gemma = {"model_type": "gemma3", "text_config": {**text, "model_type": "gemma3_text"},
             "vision_config": tower, "mm_tokens_per_image": 16, "image_token_index": 257,
             "boi_token_index": 256, "eoi_token_index": 258}  # fmt: skip
    scan = {"pan_and_scan_min_crop_size": 10, "pan_and_scan_max_num_crops": 3,
            "pan_and_scan_min_ratio_to_activate": 1.3}  # fmt: skip
    whole = ("SiglipImageProcessorPil", {**size, "image_seq_length": 64})
    marks = {"image_token": "<image>", "bos_token": "<bos>"}
    pali = {"model_type": "paligemma", "image_token_index": 260, "projection_dim": 48}
    return {
        "gemma3": t.Row(
            "Gemma3ForConditionalGeneration", gemma, SPECIAL, ("Gemma3ImageProcessorPil", size),
            ("Gemma3Processor", {"image_seq_length": 16}), prompt, tokens=names,
        ),
        "gemma3-crops": t.Row(
            "Gemma3ForConditionalGeneration",
            {**gemma, "tie_word_embeddings": False,
             "vision_config": {**tower, "image_size": 20, "vision_use_head": True},
             "mm_tokens_per_image": 4},
            SPECIAL,
            ("Gemma3ImageProcessorPil",
             {"size": {"height": 20, "width": 20}, "do_pan_and_scan": True, **scan}),
            ("Gemma3Processor", {"image_seq_length": 4}), prompt, ((24, 40), (60, 20)), names,
            call={"do_pan_and_scan": True, **scan},
        ),
        "paligemma": t.Row(
            "PaliGemmaForConditionalGeneration",
            {**pali, "text_config": {**t.TEXT, "model_type": "gemma"}, "vision_config": tower},
            SPECIAL, whole, ("PaliGemmaProcessor", {}),
            "<image><image>answer en What?", tokens=marks,
        ),
        "paligemma-2": t.Row(
            "PaliGemmaForConditionalGeneration",
            {**pali, "text_config": {**text, "model_type": "gemma2", "sliding_window": 40,
                                     "final_logit_softcapping": 3.0},
             "vision_config": {**tower, "vision_use_head": True}, "tie_word_embeddings": False},
            SPECIAL, whole, ("PaliGemmaProcessor", {}), "caption en",
            ((30, 40),), marks,
            # The reference's processor refuses such a text; its layers would see it differently.
            alone=False,
        ),
    }  # fmt: skip

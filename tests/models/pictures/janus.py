"""Rows of Janus and DeepSeek-VL."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image_placeholder>", "<begin_of_image>", "<end_of_image>", "<|end|>")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2,
             "image_size": 16, "patch_size": 4}  # fmt: skip
    siglip = {**tower, "model_type": "siglip_vision_model", "intermediate_size": 28,
              "vision_use_head": False}  # fmt: skip
    high = {"model_type": "sam_vision_model", "hidden_size": 24, "output_channels": 6,
            "num_hidden_layers": 3, "mlp_dim": 20, "num_attention_heads": 2, "image_size": 32,
            "patch_size": 4, "window_size": 3, "global_attn_indexes": [1]}  # fmt: skip
    drawn = {"embed_dim": 4, "num_embeddings": 6, "latent_channels": 4, "base_channels": 32,
             "channel_multiplier": [1], "num_res_blocks": 1, "projection_dim": 8,
             "image_token_embed_dim": 8}  # fmt: skip
    text = {**t.TEXT, "model_type": "llama"}
    names = {"image_token": "<image_placeholder>", "boi_token": "<begin_of_image>",
             "eoi_token": "<end_of_image>"}  # fmt: skip
    size = {"size": {"height": 16, "width": 16}, "min_size": 5}
    whole = {"num_image_tokens": 16}
    prompt = "<image_placeholder>\nWhat? <image_placeholder>"
    sizes = ((30, 40), (50, 11))
    return {
        "janus": t.Row(
            "JanusForConditionalGeneration",
            {"model_type": "janus", "text_config": text, "image_token_id": 256, "vq_config": drawn,
             "vision_config": {**tower, "mlp_ratio": 1.5, "attention_bias": False, "depth": 3,
                               "projection_dim": 48}, "tie_word_embeddings": False},
            SPECIAL, ("JanusImageProcessorPil", size),
            ("JanusProcessor", {**whole, "use_default_system_prompt": True}), prompt, sizes, names,
        ),
        "deepseek_vl": t.Row(
            "DeepseekVLForConditionalGeneration",
            {"model_type": "deepseek_vl", "text_config": text, "vision_config": siglip,
             "image_token_id": 256},
            SPECIAL, ("DeepseekVLImageProcessorPil", size), ("DeepseekVLProcessor", whole), prompt,
            sizes, names,
        ),
        "deepseek_vl_hybrid": t.Row(
            "DeepseekVLHybridForConditionalGeneration",
            {"model_type": "deepseek_vl_hybrid", "text_config": text, "vision_config": siglip,
             "high_res_vision_config": high, "image_token_id": 256},
            SPECIAL,
            ("DeepseekVLHybridImageProcessorPil",
             {**size, "high_res_size": {"height": 32, "width": 32},
              "high_res_image_mean": [0.5, 0.4, 0.3]}),
            ("DeepseekVLHybridProcessor", whole), "What? <image_placeholder>", ((50, 11),), names,
            everywhere=False,
        ),
    }  # fmt: skip

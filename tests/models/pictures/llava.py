"""Rows of LLaVA, LLaVA-NeXT and LLaVA-OneVision."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image>", "<|end|>", "<video>", "[IMG]", "[IMG_BREAK]", "[IMG_END]")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    clip = {"model_type": "clip_vision_model", "hidden_size": 24, "intermediate_size": 28,
            "num_hidden_layers": 4, "num_attention_heads": 2, "image_size": 24, "patch_size": 4,
            "projection_dim": 16}  # fmt: skip
    siglip = {**clip, "model_type": "siglip_vision_model", "vision_use_head": True}
    del siglip["projection_dim"]
    text = "<image>\nWhat? <image> And now?"
    square = {"size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}}
    pinpoints = [[24, 48], [48, 24], [48, 48], [24, 72]]
    small = [[16, 32], [32, 16], [32, 32], [16, 48]]
    whole = {"patch_size": 4, "num_additional_image_tokens": 1,
             "vision_feature_select_strategy": "default"}  # fmt: skip
    return {
        "llava": t.Row(
            "LlavaForConditionalGeneration",
            {"model_type": "llava", "text_config": {**t.TEXT, "model_type": "llama"},
             "vision_config": clip, "image_token_index": 256, "vision_feature_layer": [-3, 2]},
            SPECIAL, ("CLIPImageProcessorPil", square), ("LlavaProcessor", whole), text * 2,
            sizes=((30, 40), (50, 21), (9, 70), (24, 24)),
        ),
        "vipllava": t.Row(
            "VipLlavaForConditionalGeneration",
            {"model_type": "vipllava", "text_config": {**t.TEXT, "model_type": "llama"},
             "vision_config": clip, "image_token_index": 256, "vision_feature_layer": [-2, -3, 1],
             "projector_layernorm_eps": 1e-3},
            SPECIAL, ("CLIPImageProcessorPil", square), ("LlavaProcessor", whole), text,
        ),
        "llava-siglip": t.Row(
            "LlavaForConditionalGeneration",
            {"model_type": "llava", "vision_config": siglip, "image_token_index": 256,
             "text_config": {**t.TEXT, "model_type": "qwen2", "tie_word_embeddings": True},
             "vision_feature_select_strategy": "full", "vision_feature_layer": -1,
             "multimodal_projector_bias": False, "projector_hidden_act": "relu"},
            SPECIAL, ("SiglipImageProcessorPil", {"size": {"height": 24, "width": 24}}),
            ("LlavaProcessor", {"patch_size": 4, "vision_feature_select_strategy": "full"}), text,
        ),
        "llava-pixtral": t.Row(
            "LlavaForConditionalGeneration",
            {"model_type": "llava", "text_config": {**t.TEXT, "model_type": "mistral"},
             "vision_config": {"model_type": "pixtral", "hidden_size": 24, "num_hidden_layers": 2,
                               "intermediate_size": 20, "num_attention_heads": 2, "patch_size": 4,
                               "image_size": 32, "rope_theta": 50.0},
             "image_token_index": 259, "vision_feature_select_strategy": "full",
             "vision_feature_layer": -1},
            SPECIAL,
            ("PixtralImageProcessorPil", {"size": {"longest_edge": 32},
                                          "patch_size": {"height": 4, "width": 4}}),
            ("PixtralProcessor", {"patch_size": 4}), "See [IMG] and [IMG].",
        ),
        "llava_next": t.Row(
            "LlavaNextForConditionalGeneration",
            {"model_type": "llava_next", "text_config": {**t.TEXT, "model_type": "mistral"},
             "vision_config": {**clip, "image_size": 16}, "image_token_index": 256,
             "image_grid_pinpoints": small},
            SPECIAL,
            ("LlavaNextImageProcessorPil", {"size": {"shortest_edge": 16}, "crop_size": 16,
                                            "image_grid_pinpoints": small}),
            ("LlavaNextProcessor", whole), text, sizes=((30, 40), (20, 57)),
        ),
        "llava_onevision": t.Row(
            "LlavaOnevisionForConditionalGeneration",
            {"model_type": "llava_onevision", "text_config": {**t.TEXT, "model_type": "qwen2"},
             "vision_config": siglip, "image_token_index": 256, "video_token_index": 258,
             "image_grid_pinpoints": pinpoints, "vision_aspect_ratio": "anyres_max_2"},
            SPECIAL,
            ("LlavaOnevisionImageProcessorPil", {"size": {"height": 24, "width": 24},
                                                 "image_grid_pinpoints": pinpoints}),
            ("LlavaOnevisionProcessor",
             {"num_image_tokens": 36, "vision_feature_select_strategy": "full",
              "vision_aspect_ratio": "anyres_max_2"}), "What is <image>?", sizes=((70, 66),),
        ),
        "llava_onevision-two": t.Row(
            "LlavaOnevisionForConditionalGeneration",
            {"model_type": "llava_onevision", "vision_config": siglip, "image_token_index": 256,
             "video_token_index": 258, "tie_word_embeddings": True,
             "text_config": {**t.TEXT, "model_type": "qwen2"}},
            SPECIAL, ("LlavaOnevisionImageProcessorPil", {"size": {"height": 24, "width": 24}}),
            ("LlavaOnevisionProcessor",
             {"num_image_tokens": 36, "vision_feature_select_strategy": "full"}), text, nested=True,
        ),
    }  # fmt: skip

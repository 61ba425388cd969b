"""Rows of Gemma 4."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<|image>", "<|image|>", "<image|>", "<|video|>", "<|audio|>", "<|audio>", "<audio|>")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3,
             "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 12, "patch_size": 2,
             "position_embedding_size": 80, "pooling_kernel_size": 2}  # fmt: skip
    text = {**t.TEXT, "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_hidden_layers": 4, "sliding_window": 30, "global_head_dim": 16,
            "hidden_size_per_layer_input": 0, "pad_token_id": 0,
            "final_logit_softcapping": 20.0}  # fmt: skip
    names = {"boi_token": "<|image>", "image_token": "<|image|>", "eoi_token": "<image|>",
             "audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>",
             "pad_token": "<|audio|>"}  # fmt: skip
    patches = {"patch_size": 2, "pooling_kernel_size": 2, "max_soft_tokens": 70}

    def row(more: dict[str, Any], vision: dict[str, Any], **config: Any) -> Any:
        return t.Row(
            "Gemma4ForConditionalGeneration",
            {"model_type": "gemma4", "image_token_id": 257, "video_token_id": 259,
             "audio_token_id": 260, "text_config": {**text, **more, "model_type": "gemma4_text"},
             "vision_config": {**tower, **vision, "model_type": "gemma4_vision"}, **config},
            SPECIAL, ("Gemma4ImageProcessorPil", patches), ("Gemma4Processor", {}),
            "<|image|>What? <|image|> And?", ((30, 40), (50, 21)), names,
            videos="Gemma4VideoProcessor",
        )  # fmt: skip

    inputs = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 300}
    return {
        "gemma4": row(inputs, {"use_clipped_linears": True}),
        "gemma4-windows": row(
            {"use_bidirectional_attention": "vision"},
            {"standardize": True, "num_key_value_heads": 2}, tie_word_embeddings=False,
        ),
    }  # fmt: skip

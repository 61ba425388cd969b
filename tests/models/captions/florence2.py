"""Rows of Florence-2."""

from __future__ import annotations

from typing import Any


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is captioning.py."""
    text = {
        "model_type": "bart",
        "vocab_size": 300,
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 28,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 90,
        "pad_token_id": 1,
        "bos_token_id": 256,
        "eos_token_id": 257,
    }
    vision = {
        "depths": [1, 2],
        "patch_size": [7, 3],
        "patch_stride": [4, 2],
        "patch_padding": [3, 1],
        "patch_prenorm": [False, True],
        "embed_dim": [8, 16],
        "num_heads": [2, 4],
        "num_groups": [2, 2],
        "window_size": 3,
        "mlp_ratio": 2.0,
        "projection_dim": 24,
        "max_temporal_embeddings": 5,
        "max_position_embeddings": 6,
    }
    size = {"size": {"height": 32, "width": 40}, "do_center_crop": False}
    search = {
        "decoder_start_token_id": 257,
        "eos_token_id": 2,
        "pad_token_id": 258,
        "bos_token_id": 256,
        "forced_bos_token_id": 256,
        "no_repeat_ngram_size": 3,
        "forced_eos_token_id": None,
    }

    def row(text: Any, vision: Any, prompt: str, wanted: str, **more: Any) -> Any:
        config = {
            "model_type": "florence2",
            "text_config": text,
            "vision_config": vision,
            "image_token_id": 259,
            **more,
        }
        return t.Row(
            "Florence2ForConditionalGeneration",
            config,
            ("CLIPImageProcessorPil", size),
            prompt,
            special=("<s>", "</s>", "<pad>", "<image>"),
            read="encode",
            search=search,
            spoken="<image>" * 21 + f"<s>{wanted}</s>",
        )

    plain = {
        **vision,
        "qkv_bias": False,
        "patch_prenorm": [True, False],
        "embed_dim": [8, 24],
        "activation_function": "relu",
    }
    return {
        "florence2": row(
            text, vision, "<OD>", "Locate the objects with category name in the image."
        ),
        "florence2_plain": row(
            {**text, "scale_embedding": True, "activation_function": "relu"}, plain,
            "<REGION_TO_OCR> a", "What text is in the region a?", tie_word_embeddings=False,
        ),
    }  # fmt: skip

"""Rows of BLIP."""

from __future__ import annotations

from typing import Any


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is captioning.py."""
    text = {
        "vocab_size": 300,
        "hidden_size": 32,
        "encoder_hidden_size": 24,
        "intermediate_size": 36,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 40,
        "bos_token_id": 256,
        "eos_token_id": 2,
        "pad_token_id": 258,
        "sep_token_id": 257,
    }
    vision = {
        "hidden_size": 24,
        "intermediate_size": 28,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    }

    def row(kind: str, text: Any, vision: Any, read: str, beside: str, **more: Any) -> Any:
        config = {"model_type": "blip", "text_config": text, "vision_config": vision, **more}
        size = {"size": {"height": 32, "width": 32}}
        return t.Row(
            f"BlipFor{kind}",
            config,
            ("BlipImageProcessorPil", size),
            beside,
            read=read,
            given=False,
        )

    wide = {**vision, "hidden_size": 32, "hidden_act": "quick_gelu"}
    same = {**text, "encoder_hidden_size": 32, "hidden_act": "relu"}
    return {
        "blip": row("ConditionalGeneration", text, vision, "decode", "A boat x"),
        "blip_answer": row("QuestionAnswering", same, wide, "encode", "What is it?"),
        "blip_match": row("ImageTextRetrieval", text, vision, "encode", "A cat.",
                          image_text_hidden_size=16),
    }  # fmt: skip

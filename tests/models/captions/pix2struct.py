"""Rows of Pix2Struct."""

from __future__ import annotations

from typing import Any


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is captioning.py."""
    text = {
        "vocab_size": 300,
        "hidden_size": 32,
        "d_kv": 8,
        "d_ff": 36,
        "num_layers": 2,
        "num_heads": 4,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 12,
        "decoder_start_token_id": 256,
        "pad_token_id": 258,
        "eos_token_id": 257,
    }
    vision = {
        "hidden_size": 32,
        "patch_embed_hidden_size": 48,
        "d_ff": 28,
        "d_kv": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "seq_len": 40,
    }
    begin = {"decoder_start_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}
    flat = {"patch_size": {"height": 4, "width": 4}, "max_patches": 22}

    def row(text: Any, vision: Any, said: str, **more: Any) -> Any:
        return t.Row(
            "Pix2StructForConditionalGeneration",
            {"model_type": "pix2struct", "text_config": text, "vision_config": vision, **more},
            ("Pix2StructImageProcessorPil", flat),
            said,
            read="begin",
            search=begin,
        )

    relu = {"dense_act_fn": "relu"}
    return {
        "pix2struct": row(text, vision, ""),
        "pix2struct_tied": row({**text, **relu}, {**vision, **relu}, "A b",
                               tie_word_embeddings=True),
    }  # fmt: skip

"""Rows of Granite for Docling."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<fake_token_around_image>", "<image>", "<global-img>",
           *(f"<row_{i}_col_{j}>" for i in (1, 2, 3) for j in (1, 2, 3)))  # fmt: skip


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3,
             "num_attention_heads": 2, "image_size": 16, "patch_size": 4, "out_hidden_size": 48,
             "deepstack_visual_indexes": [0, 2]}  # fmt: skip
    text = {**t.TEXT, "model_type": "granite_docling_text", "residual_multiplier": 0.7,
            "embedding_multiplier": 3.0, "logits_scaling": 2.0}  # fmt: skip
    del text["head_dim"]
    cut = {"size": {"height": 16, "width": 16}, "max_patches": 3}
    dense = {**cut, "dense_max_patches": 6, "dense_max_scale": 0.9, "dense_min_aspect": 0.5,
             "dense_max_aspect": 2.0, "fine_route": True, "max_patches": 1}  # fmt: skip
    prompt = "User:<image>What? <image>"
    return {
        "granite_docling": t.Row(
            "GraniteDoclingForConditionalGeneration",
            {"model_type": "granite_docling", "text_config": text, "image_token_id": 257,
             "vision_config": {**tower, "use_fine_route": False}},
            SPECIAL, ("GraniteDoclingImageProcessorPil", cut),
            ("GraniteDoclingProcessor", {"image_seq_len": 1}), prompt, ((20, 40), (50, 21)),
        ),
        "granite_docling-fine": t.Row(
            "GraniteDoclingForConditionalGeneration",
            {"model_type": "granite_docling", "text_config": text, "image_token_id": 257,
             "vision_config": {**tower, "hidden_act": "relu"}, "density_router_hidden_size": 10,
             "tie_word_embeddings": False},
            SPECIAL, ("GraniteDoclingImageProcessorPil", {**dense, "max_patches": 2}),
            ("GraniteDoclingProcessor", {"image_seq_len": 1}), prompt, ((30, 50), (30, 90)),
            everywhere=False,
        ),
    }  # fmt: skip

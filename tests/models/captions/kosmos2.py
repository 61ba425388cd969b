"""Rows of KOSMOS-2."""

from __future__ import annotations

from typing import Any


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is captioning.py."""
    vision = {
        "hidden_size": 24,
        "intermediate_size": 28,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    }
    text = {
        "vocab_size": 300,
        "max_position_embeddings": 60,
        "embed_dim": 32,
        "layers": 2,
        "ffn_dim": 36,
        "attention_heads": 4,
        "bos_token_id": 256,
        "pad_token_id": 1,
        "eos_token_id": 257,
    }
    size = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    special = ("<s>", "</s>", "<pad>", "<image>", "</image>", "<grounding>")

    def row(text: Any, vision: Any, said: str, **more: Any) -> Any:
        config = {
            "model_type": "kosmos-2",
            "text_config": text,
            "vision_config": vision,
            "latent_query_num": 3,
            **more,
        }
        search = {"eos_token_id": 257, "pad_token_id": 1, "bos_token_id": 256}
        return t.Row(
            "Kosmos2ForConditionalGeneration",
            config,
            ("CLIPImageProcessorPil", size),
            said,
            special,
            search,
            "rows",
            spoken="<s><image>***</image>" + (f" {said}" if said else ""),
        )

    return {
        "kosmos2": row(text, vision, "<grounding>An"),
        "kosmos2_plain": row({**text, "scale_embedding": False, "activation_function": "relu"},
                             {**vision, "hidden_act": "gelu"}, ""),
    }  # fmt: skip

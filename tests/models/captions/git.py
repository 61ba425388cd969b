"""Rows of GIT."""

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
    config = {
        "model_type": "git",
        "vocab_size": 300,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 36,
        "max_position_embeddings": 40,
        "bos_token_id": 256,
        "eos_token_id": 257,
        "pad_token_id": 258,
    }
    size = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}

    def row(text: str, vision: Any, **more: Any) -> Any:
        return t.Row(
            "GitForCausalLM",
            {**config, **more, "vision_config": vision},
            ("CLIPImageProcessorPil", size),
            text,
            read="decode",
            given=False,
            spoken=f"<s>{text}",
        )

    return {
        "git": row("What is it?", vision),
        "git_tied": row("", {**vision, "hidden_act": "gelu"}, tie_word_embeddings=True,
                        hidden_act="relu"),
    }  # fmt: skip

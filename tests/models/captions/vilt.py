"""Rows of ViLT."""

from __future__ import annotations

from typing import Any


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is captioning.py."""
    config = {
        "model_type": "vilt",
        "vocab_size": 300,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 28,
        "image_size": 32,
        "patch_size": 8,
        "num_labels": 7,
    }
    size = {"size": {"shortest_edge": 30}, "size_divisor": 8}

    def row(sizes: Any, **more: Any) -> Any:
        return t.Row(
            "ViltForQuestionAnswering",
            config | more,
            ("ViltImageProcessorPil", size),
            "How many?",
            read="choose",
            sizes=sizes,
        )

    return {
        "vilt": row(((40, 57),)),
        "vilt_plain": row(((33, 33),), qkv_bias=False, hidden_act="relu"),
    }  # fmt: skip

"""A row of Idefics2."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image>", "<fake_token_around_image>", "<end_of_utterance>")


def rows(t: Any) -> dict[str, Any]:
    """The row; `t` is seeing.py."""
    return {
        "idefics2": t.Row(
            "Idefics2ForConditionalGeneration",
            {"model_type": "idefics2", "text_config": {**t.TEXT, "model_type": "mistral"},
             "vision_config": {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 2,
                               "num_attention_heads": 2, "image_size": 16, "patch_size": 4},
             "perceiver_config": {"hidden_size": 48, "resampler_n_latents": 2, "resampler_depth": 2,
                                  "resampler_n_heads": 4, "resampler_head_dim": 6,
                                  "num_key_value_heads": 2, "hidden_act": "gelu"},
             "image_token_id": 256},
            SPECIAL,
            ("Idefics2ImageProcessorPil", {"size": {"shortest_edge": 8, "longest_edge": 10},
                                           "do_image_splitting": True}),
            ("Idefics2Processor", {"image_seq_len": 2}), "<image><image>What?",
        ),
    }  # fmt: skip

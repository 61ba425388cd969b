"""Rows of Idefics3 and SmolVLM."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>",
           *(f"<row_{i}_col_{j}>" for i in (1, 2) for j in (1, 2, 3)), "<video>")  # fmt: skip


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    tower = {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3,
             "num_attention_heads": 2, "image_size": 24, "patch_size": 4}  # fmt: skip
    text = {**t.TEXT, "model_type": "llama"}
    prompt = "User:<image>What? <image>"
    return {
        "idefics3": t.Row(
            "Idefics3ForConditionalGeneration",
            {"model_type": "idefics3", "text_config": text, "vision_config": tower,
             "image_token_id": 257},
            SPECIAL, ("Idefics3ImageProcessorPil", {"size": {"longest_edge": 32},
                                                    "max_image_size": {"longest_edge": 16}}),
            ("Idefics3Processor", {"image_seq_len": 4}), prompt, ((20, 40), (50, 21)),
        ),
        "smolvlm": t.Row(
            "SmolVLMForConditionalGeneration",
            {"model_type": "smolvlm", "text_config": text, "scale_factor": 3,
             "vision_config": {**tower, "hidden_act": "relu"}, "image_token_id": 257,
             "tie_word_embeddings": True},
            SPECIAL, ("SmolVLMImageProcessorPil", {"size": {"longest_edge": 40},
                                                   "max_image_size": {"longest_edge": 24},
                                                   "do_image_splitting": False}),
            ("SmolVLMProcessor", {"image_seq_len": 4}), prompt, ((20, 40), (50, 21)),
            videos="SmolVLMVideoProcessor",
        ),
    }  # fmt: skip

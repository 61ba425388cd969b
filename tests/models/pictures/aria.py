"""A row of Aria, whose pictures have 490 pixels of a side at least."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<|img|>",)


def rows(t: Any) -> dict[str, Any]:
    """The row; `t` is seeing.py."""
    return {
        "aria": t.Row(
            "AriaForConditionalGeneration",
            {"model_type": "aria", "image_token_index": 256,
             "text_config": {**t.TEXT, "model_type": "aria_text", "moe_num_experts": 4,
                             "moe_topk": 2, "moe_num_shared_experts": 1, "pad_token_id": 0},
             "vision_config": {"model_type": "idefics3_vision", "hidden_size": 24,
                               "intermediate_size": 28, "num_hidden_layers": 2,
                               "num_attention_heads": 2, "image_size": 294, "patch_size": 98},
             "projector_patch_to_query_dict": {"25": 3}},
            SPECIAL,
            ("AriaImageProcessorPil", {"max_image_size": 490, "min_image_size": 100,
                                       "split_image": True,
                                       "split_resolutions": [[490, 980], [980, 490]]}),
            ("AriaProcessor", {"size_conversion": {"490": 3}}), "<|img|>What? <|img|>",
            ((30, 40), (50, 11)), {"image_token": "<|img|>", "pad_token": "<|img|>"},
            call={"max_image_size": 490, "split_image": True}, everywhere=False,
        ),
    }  # fmt: skip

"""A row of Fuyu."""

from __future__ import annotations

from typing import Any

SPECIAL = ("|SPEAKER|", "|NEWLINE|", "<s>", "<0x04>")


def rows(t: Any) -> dict[str, Any]:
    """The row; `t` is seeing.py."""
    return {
        "fuyu": t.Row(
            "FuyuForCausalLM",
            {"model_type": "fuyu", "patch_size": 5, "image_token_id": 256,
             "text_config": {**t.TEXT, "model_type": "persimmon", "rope_parameters": {
                 "rope_type": "default", "rope_theta": 25000.0, "partial_rotary_factor": 0.5}}},
            SPECIAL,
            ("FuyuImageProcessorPil", {"size": {"height": 20, "width": 30},
                                       "patch_size": {"height": 5, "width": 5}}),
            ("FuyuProcessor", {}), "What?", ((33, 40),),
            call={"return_legacy_image_output": False},
        ),
    }  # fmt: skip

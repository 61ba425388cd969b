"""Rows of Chameleon."""

from __future__ import annotations

from typing import Any

SPECIAL = ("<image>", "<racm3:break>", "<eoss>", "<sep>")


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is seeing.py."""
    # No token of a code is a multiple of five, whose logits goldens hold.
    codes = {f"IMGIMG{'ABCDEFGH'[i]}Z": 271 + i + i // 4 for i in range(8)}
    text = {k: v for k, v in t.TEXT.items() if k != "head_dim"}

    def row(**config: Any) -> Any:
        return t.Row(
            "ChameleonForConditionalGeneration",
            {**text, "model_type": "chameleon", "vocabulary_map": {"<image>": 256, **codes},
             "vq_config": {"embed_dim": 6, "num_embeddings": 8, "latent_channels": 5,
                           "resolution": 16, "base_channels": 32, "channel_multiplier": [1, 2],
                           "num_res_blocks": 1, "attn_resolutions": [8]}, **config},
            SPECIAL,
            ("ChameleonImageProcessorPil", {"size": {"shortest_edge": 16},
                                            "crop_size": {"height": 16, "width": 16}}),
            ("ChameleonProcessor", {"image_seq_length": 64}), "What? <image>",
            ((30, 40),), {"sep_token": "<sep>"}, call={"return_for_text_completion": True},
            everywhere=False,
        )  # fmt: skip

    return {
        "chameleon": row(),
        "chameleon-swin": row(swin_norm=True, attention_bias=True, mlp_bias=True),
    }

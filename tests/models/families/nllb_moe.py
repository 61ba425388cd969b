"""Rows of nllb-moe.

The golden is of transformers 4.57: in version 5 no experts but the first two compute anything.
"""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "nllb-moe": (
            "NllbMoeForConditionalGeneration",
            t.bart(
                "nllb-moe",
                num_experts=5,
                encoder_sparse_step=2,
                decoder_sparse_step=3,
                moe_token_dropout=0.3,
                router_bias=True,
                scale_embedding=False,
            ),
        ),
    }

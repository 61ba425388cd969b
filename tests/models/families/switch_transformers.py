"""Rows of switch_transformers."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "switch": (
            "SwitchTransformersForConditionalGeneration",
            t.t5(
                "switch_transformers",
                num_layers=4,
                num_decoder_layers=2,
                num_sparse_encoder_layers=2,
                num_sparse_decoder_layers=1,
                num_experts=3,
                expert_capacity=7,
                router_bias=True,
                d_ff=20,
            ),
        ),
    }

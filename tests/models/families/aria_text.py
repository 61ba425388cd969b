"""Rows of aria_text."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "aria_text": (
            "AriaTextForCausalLM",
            t.sized("aria_text", moe_num_experts=5, moe_topk=3, hidden_act="gelu"),
        ),
        "aria_text-biases": (
            "AriaTextForCausalLM",
            t.sized(
                "aria_text",
                moe_num_experts=4,
                moe_num_shared_experts=1,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                num_hidden_layers=2,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of phimoe."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "phimoe": (
            "PhimoeForCausalLM",
            t.sized(
                "phimoe",
                num_local_experts=5,
                sliding_window=5,
                router_jitter_noise=0.2,
                attention_bias=True,
                lm_head_bias=True,
            ),
        ),
        "phimoe-gguf": (
            "PhimoeForCausalLM",
            t.sized(
                "phimoe",
                num_local_experts=5,
                attention_bias=True,
                lm_head_bias=True,
            ),
        ),
        "phimoe-long": (
            "PhimoeForCausalLM",
            t.sized(
                "phimoe",
                num_local_experts=4,
                tie_word_embeddings=True,
                rope_parameters={
                    **t.LONG,
                    "short_mscale": 1.2,
                    "long_mscale": 1.4,
                    "original_max_position_embeddings": 32,
                },
            ),
        ),
    }

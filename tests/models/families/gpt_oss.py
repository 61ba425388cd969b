"""Rows of gpt_oss."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("gpt_oss-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gpt_oss": (
            "GptOssForCausalLM",
            t.sized(
                "gpt_oss",
                head_dim=10,
                num_local_experts=5,
                num_experts_per_tok=2,
                sliding_window=4,
                rope_parameters=t.YARN | {"truncate": False},
            ),
        ),
        "gpt_oss-gguf": (
            "GptOssForCausalLM",
            t.sized(
                "gpt_oss",
                head_dim=16,
                num_local_experts=4,
                num_experts_per_tok=3,
                sliding_window=6,
                num_hidden_layers=2,
                rope_parameters={"rope_type": "default", "rope_theta": 900.0},
            ),
        ),
        "gpt_oss-plain": (
            "GptOssForCausalLM",
            t.sized(
                "gpt_oss",
                head_dim=8,
                num_local_experts=3,
                num_experts_per_tok=1,
                attention_bias=False,
                tie_word_embeddings=True,
                swiglu_limit=0.5,
                swiglu_alpha=1.1,
                num_key_value_heads=3,
                sliding_window=5,
                layer_types=["full_attention", "sliding_attention", "full_attention"],
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of qwen3_5_text."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("qwen3_5",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "qwen3_5": (
            "Qwen3_5ForCausalLM",
            t.sized(
                "qwen3_5_text",
                head_dim=16,
                linear_key_head_dim=8,
                linear_value_head_dim=8,
                linear_num_key_heads=2,
                linear_num_value_heads=6,
                layer_types=["linear_attention", "full_attention", "linear_attention"],
            ),
        ),
        "qwen3_5-tied": (
            "Qwen3_5ForCausalLM",
            t.sized(
                "qwen3_5_text",
                num_hidden_layers=4,
                head_dim=12,
                tie_word_embeddings=True,
                attention_bias=True,
                linear_conv_kernel_dim=3,
                linear_key_head_dim=7,
                linear_value_head_dim=9,
                linear_num_key_heads=3,
                linear_num_value_heads=3,
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": 2000.0,
                    "partial_rotary_factor": 0.5,
                    "mrope_section": [1, 1, 1],
                    "mrope_interleaved": True,
                },
            ),
        ),
    }

"""Rows of qwen3_5_moe_text."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("qwen3_5_moe",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {key: value for key, value in t.SIZES.items() if key != "intermediate_size"}
    return {
        "qwen3_5_moe": (
            "Qwen3_5MoeForCausalLM",
            {
                **sizes,
                "model_type": "qwen3_5_moe_text",
                "head_dim": 16,
                "num_experts": 5,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 24,
                "shared_expert_intermediate_size": 20,
                "linear_key_head_dim": 8,
                "linear_value_head_dim": 8,
                "linear_num_key_heads": 2,
                "linear_num_value_heads": 4,
                "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            },
        ),
        "qwen3_5_moe-tied": (
            "Qwen3_5MoeForCausalLM",
            {
                **sizes,
                "model_type": "qwen3_5_moe_text",
                "head_dim": 24,
                "num_hidden_layers": 2,
                "num_experts": 3,
                "num_experts_per_tok": 3,
                "moe_intermediate_size": 20,
                "shared_expert_intermediate_size": 16,
                "linear_key_head_dim": 7,
                "linear_value_head_dim": 9,
                "linear_num_key_heads": 3,
                "linear_num_value_heads": 3,
                "linear_conv_kernel_dim": 3,
                "attention_bias": True,
                "tie_word_embeddings": True,
                "layer_types": ["full_attention", "linear_attention"],
            },
        ),
    }

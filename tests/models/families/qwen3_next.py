"""Rows of qwen3_next."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("qwen3_next-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "qwen3_next": (
            "Qwen3NextForCausalLM",
            t.sized(
                "qwen3_next",
                num_experts=5,
                num_experts_per_tok=2,
                moe_intermediate_size=24,
                head_dim=16,
                shared_expert_intermediate_size=20,
                num_hidden_layers=5,
                linear_key_head_dim=10,
                linear_value_head_dim=6,
                linear_num_key_heads=2,
                linear_num_value_heads=6,
            ),
        ),
        "qwen3_next-gguf": (
            "Qwen3NextForCausalLM",
            t.sized(
                "qwen3_next",
                num_experts=5,
                num_experts_per_tok=2,
                moe_intermediate_size=24,
                head_dim=16,
                shared_expert_intermediate_size=20,
                linear_key_head_dim=16,
                linear_value_head_dim=16,
                linear_num_key_heads=2,
                linear_num_value_heads=6,
                layer_types=["linear_attention", "full_attention", "linear_attention"],
            ),
        ),
        "qwen3_next-dense": (
            "Qwen3NextForCausalLM",
            t.sized(
                "qwen3_next",
                num_experts=3,
                num_experts_per_tok=2,
                moe_intermediate_size=20,
                head_dim=8,
                shared_expert_intermediate_size=16,
                tie_word_embeddings=True,
                mlp_only_layers=[1],
                attention_bias=True,
                norm_topk_prob=False,
                linear_conv_kernel_dim=3,
                linear_key_head_dim=7,
                linear_value_head_dim=9,
                linear_num_key_heads=3,
                linear_num_value_heads=3,
                rope_parameters={**t.LINEAR, "partial_rotary_factor": 0.5},
                layer_types=["full_attention", "linear_attention", "linear_attention"],
            ),
        ),
    }

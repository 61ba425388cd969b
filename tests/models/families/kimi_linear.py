"""Rows of kimi_linear."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 7,
        "qk_rope_head_dim": 6,
        "v_head_dim": 9,
        "moe_intermediate_size": 24,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "linear_head_dim": 6,
        "linear_num_heads": 3,
    }
    return {
        "kimi_linear": (
            "KimiLinearForCausalLM",
            t.sized(
                "kimi_linear",
                **sizes,
                layer_types=["linear_attention", "full_attention", "linear_attention"],
            ),
        ),
        "kimi_linear-groups": (
            "KimiLinearForCausalLM",
            t.sized(
                "kimi_linear",
                **{
                    **sizes,
                    "num_local_experts": 6,
                    "linear_conv_kernel_dim": 3,
                },
                num_hidden_layers=2,
                q_lora_rank=10,
                n_group=3,
                topk_group=2,
                norm_topk_prob=False,
                n_shared_experts=2,
                attention_bias=True,
                tie_word_embeddings=True,
                layer_types=["full_attention", "linear_attention"],
                mlp_layer_types=["sparse", "dense"],
            ),
        ),
    }

"""Rows of deepseek_v2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "deepseek_v2",
    "deepseek_v2-gguf",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "deepseek_v2": (
            "DeepseekV2ForCausalLM",
            t.latent(
                "deepseek_v2",
                q_lora_rank=None,
                qk_nope_head_dim=8,
                n_routed_experts=6,
                num_experts_per_tok=2,
                topk_method="greedy",
                routed_scaling_factor=1.5,
            ),
        ),
        "deepseek_v2-groups": (
            "DeepseekV2ForCausalLM",
            t.latent(
                "deepseek_v2",
                q_lora_rank=20,
                qk_nope_head_dim=8,
                n_routed_experts=8,
                num_experts_per_tok=3,
                n_group=4,
                topk_group=2,
                topk_method="group_limited_greedy",
                attention_bias=True,
                tie_word_embeddings=True,
                rope_parameters=t.YARN | {"mscale": 0.7, "mscale_all_dim": 1.3},
            ),
        ),
        "deepseek_v2-gguf": (
            "DeepseekV2ForCausalLM",
            t.latent(
                "deepseek_v2",
                q_lora_rank=20,
                qk_nope_head_dim=8,
                n_routed_experts=7,
                num_experts_per_tok=3,
                n_shared_experts=1,
                tie_word_embeddings=True,
                rope_parameters=t.YARN | {"mscale": 0.7, "mscale_all_dim": 0.7},
            ),
        ),
    }

"""Rows of glm_moe_dsa."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "glm_moe_dsa": (
            "GlmMoeDsaForCausalLM",
            t.latent(
                "glm_moe_dsa",
                q_lora_rank=20,
                n_routed_experts=4,
                num_experts_per_tok=2,
                index_topk=4,
                index_head_dim=10,
                index_n_heads=7,
                indexer_types=["full", "shared", "full"],
            ),
        ),
        "glm_moe_dsa-pattern": (
            "GlmMoeDsaForCausalLM",
            t.latent(
                "glm_moe_dsa",
                num_hidden_layers=2,
                q_lora_rank=14,
                n_routed_experts=6,
                num_experts_per_tok=2,
                n_group=3,
                topk_group=2,
                n_shared_experts=2,
                norm_topk_prob=False,
                attention_bias=True,
                tie_word_embeddings=True,
                index_topk_pattern="FS",
                index_topk=3,
                index_head_dim=6,
                index_n_heads=5,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

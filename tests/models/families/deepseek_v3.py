"""Rows of deepseek_v3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "deepseek_v3",
    "deepseek_v3-gguf",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "deepseek_v3": (
            "DeepseekV3ForCausalLM",
            t.latent(
                "deepseek_v3",
                q_lora_rank=20,
                n_routed_experts=8,
                num_experts_per_tok=3,
                n_group=4,
                topk_group=2,
            ),
        ),
        "deepseek_v3-halves": (
            "DeepseekV3ForCausalLM",
            t.latent(
                "deepseek_v3",
                q_lora_rank=None,
                n_routed_experts=6,
                num_experts_per_tok=2,
                n_group=1,
                topk_group=1,
                norm_topk_prob=False,
                rope_interleave=False,
                tie_word_embeddings=True,
                first_k_dense_replace=2,
                n_shared_experts=2,
                rope_parameters=t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            ),
        ),
        "deepseek_v3-gguf": (
            "DeepseekV3ForCausalLM",
            t.latent(
                "deepseek_v3",
                q_lora_rank=None,
                n_routed_experts=6,
                num_experts_per_tok=2,
                n_group=1,
                topk_group=1,
                norm_topk_prob=False,
                n_shared_experts=2,
                first_k_dense_replace=2,
                rope_parameters=t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            ),
        ),
    }

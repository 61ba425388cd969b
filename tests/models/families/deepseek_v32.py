"""Rows of deepseek_v32."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "deepseek_v32": (
            "DeepseekV32ForCausalLM",
            t.latent(
                "deepseek_v32",
                q_lora_rank=20,
                n_routed_experts=8,
                num_experts_per_tok=3,
                n_group=4,
                topk_group=2,
                index_topk=4,
                index_head_dim=10,
                index_n_heads=7,
            ),
        ),
        "deepseek_v32-yarn": (
            "DeepseekV32ForCausalLM",
            t.latent(
                "deepseek_v32",
                num_hidden_layers=2,
                q_lora_rank=14,
                n_routed_experts=4,
                num_experts_per_tok=2,
                n_group=1,
                topk_group=1,
                n_shared_experts=2,
                norm_topk_prob=False,
                attention_bias=True,
                tie_word_embeddings=True,
                mlp_layer_types=["sparse", "dense"],
                index_topk=3,
                index_head_dim=6,
                index_n_heads=5,
                rope_parameters=t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            ),
        ),
    }

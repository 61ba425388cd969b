"""Rows of mistral4."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    warm = t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4}
    warm["original_max_position_embeddings"] = 5
    sizes = t.latent("mistral4", q_lora_rank=20, qk_nope_head_dim=6, rope_parameters=warm)
    return {
        "mistral4": (
            "Mistral4ForCausalLM",
            sizes
            | {
                "n_routed_experts": 8,
                "num_experts_per_tok": 3,
                "n_group": 4,
                "topk_group": 2,
                "routed_scaling_factor": 1.5,
            },
        ),
        "mistral4-halves": (
            "Mistral4ForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "q_lora_rank": None,
                "n_routed_experts": 5,
                "num_experts_per_tok": 2,
                "n_shared_experts": 2,
                "norm_topk_prob": False,
                "rope_interleave": False,
                "attention_bias": True,
                "tie_word_embeddings": True,
            },
        ),
    }

"""Rows of solar_open."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("solar_open-plain",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("solar_open", head_dim=12, moe_intermediate_size=24)
    del sizes["intermediate_size"]
    return {
        "solar_open": (
            "SolarOpenForCausalLM",
            sizes
            | {
                "n_routed_experts": 8,
                "num_experts_per_tok": 3,
                "n_group": 4,
                "topk_group": 2,
                "n_shared_experts": 2,
                "norm_topk_prob": False,
                "attention_bias": True,
            },
        ),
        "solar_open-plain": (
            "SolarOpenForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "n_routed_experts": 5,
                "num_experts_per_tok": 2,
                "routed_scaling_factor": 1.5,
                "tie_word_embeddings": True,
                "rope_parameters": t.YARN,
            },
        ),
    }

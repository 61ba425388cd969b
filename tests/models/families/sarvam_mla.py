"""Rows of sarvam_mla."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "sarvam_mla": (
            "DeepseekV3ForCausalLM",
            t.latent(
                "sarvam_mla",
                num_hidden_layers=2,
                n_routed_experts=8,
                num_experts_per_tok=3,
                n_shared_experts=2,
                q_lora_rank=20,
                rope_parameters=t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            ),
        ),
    }

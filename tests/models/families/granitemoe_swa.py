"""Rows of granitemoe_swa."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "granitemoe_swa": (
            "GraniteMoeSWAForCausalLM",
            t.sized(
                "granitemoe_swa",
                sliding_window=4,
                num_local_experts=5,
                shared_intermediate_size=20,
                embedding_multiplier=6.0,
                logits_scaling=3.0,
                residual_multiplier=0.3,
                attention_multiplier=0.2,
            ),
        ),
        "granitemoe_swa-bases": (
            "GraniteMoeSWAForCausalLM",
            t.sized(
                "granitemoe_swa",
                num_local_experts=3,
                sliding_window=5,
                attention_bias=True,
                tie_word_embeddings=True,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                layer_rope_theta=[10000.0, 0, 500.0],
                rope_parameters=t.LINEAR,
            ),
        ),
    }

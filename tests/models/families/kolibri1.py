"""Rows of kolibri1."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "kolibri1": (
            "Kolibri1ForCausalLM",
            t.sized(
                "kolibri1",
                head_dim=8,
                moe_intermediate_size=24,
                shared_expert_intermediate_size=20,
                num_experts=6,
                num_experts_per_tok=2,
                sliding_window=5,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            ),
        ),
        "kolibri1-normalized": (
            "Kolibri1ForCausalLM",
            t.sized(
                "kolibri1",
                head_dim=10,
                moe_intermediate_size=24,
                shared_expert_intermediate_size=24,
                num_experts=4,
                num_experts_per_tok=3,
                num_hidden_layers=5,
                norm_topk_prob=True,
                sliding_window=4,
                tie_word_embeddings=True,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of minimax."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "minimax": (
            "MiniMaxForCausalLM",
            t.sized(
                "minimax",
                num_local_experts=4,
                intermediate_size=24,
                block_size=4,
                layer_types=["linear_attention", "full_attention", "linear_attention"],
                full_attn_alpha_factor=1.5,
                full_attn_beta_factor=0.7,
                linear_attn_alpha_factor=0.8,
                linear_attn_beta_factor=1.3,
                mlp_alpha_factor=1.2,
                mlp_beta_factor=0.6,
            ),
        ),
        "minimax-window": (
            "MiniMaxForCausalLM",
            t.sized(
                "minimax",
                num_hidden_layers=2,
                num_local_experts=3,
                num_experts_per_tok=1,
                intermediate_size=20,
                head_dim=10,
                sliding_window=4,
                tie_word_embeddings=True,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of granitemoehybrid."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("granitemoehybrid",)

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "granitemoehybrid": (
            "GraniteMoeHybridForCausalLM",
            t.sized(
                "granitemoehybrid",
                layer_types=["mamba", "attention", "mamba"],
                num_local_experts=5,
                num_experts_per_tok=2,
                shared_intermediate_size=40,
                embedding_multiplier=6.0,
                logits_scaling=3.0,
                residual_multiplier=0.3,
                attention_multiplier=0.2,
                mamba_n_heads=8,
                mamba_d_state=9,
                mamba_n_groups=2,
            ),
        ),
        "granitemoehybrid-dense": (
            "GraniteMoeHybridForCausalLM",
            t.sized(
                "granitemoehybrid",
                layer_types=["attention", "mamba"],
                num_hidden_layers=2,
                num_local_experts=0,
                shared_intermediate_size=44,
                position_embedding_type="rope",
                attention_bias=True,
                tie_word_embeddings=True,
                mamba_n_heads=4,
                mamba_d_head=12,
                mamba_expand=1,
                mamba_d_state=7,
                mamba_d_conv=3,
                mamba_conv_bias=False,
                mamba_proj_bias=True,
                time_step_limit=[0.05, 0.8],
            ),
        ),
    }

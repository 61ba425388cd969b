"""Rows of granitemoe, granitemoeshared."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "granitemoe",
    "granitemoe-biases",
    "granitemoeshared",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "granitemoe": (
            "GraniteMoeForCausalLM",
            t.sized(
                "granitemoe",
                num_local_experts=5,
                num_experts_per_tok=2,
                embedding_multiplier=6.0,
                logits_scaling=3.0,
                residual_multiplier=0.3,
                attention_multiplier=0.2,
            ),
        ),
        "granitemoe-biases": (
            "GraniteMoeForCausalLM",
            t.sized(
                "granitemoe",
                num_local_experts=3,
                num_experts_per_tok=3,
                attention_bias=True,
                tie_word_embeddings=True,
                attention_multiplier=0.35,
                num_hidden_layers=2,
            ),
        ),
        "granitemoeshared": (
            "GraniteMoeSharedForCausalLM",
            t.sized(
                "granitemoeshared",
                num_local_experts=5,
                num_experts_per_tok=2,
                shared_intermediate_size=20,
                residual_multiplier=0.3,
                attention_multiplier=0.2,
                num_hidden_layers=2,
            ),
        ),
    }

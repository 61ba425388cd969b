"""Rows of hyperclovax."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "hyperclovax": (
            "HyperCLOVAXForCausalLM",
            t.sized(
                "hyperclovax",
                head_dim=12,
                embedding_multiplier=6.0,
                logits_scaling=0.4,
                residual_multiplier=0.3,
                attention_multiplier=0.2,
            ),
        ),
        "hyperclovax-biases": (
            "HyperCLOVAXForCausalLM",
            t.sized(
                "hyperclovax",
                use_post_norm=False,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                rope_parameters=t.LLAMA3,
            ),
        ),
    }

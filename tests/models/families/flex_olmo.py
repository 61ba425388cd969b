"""Rows of flex_olmo."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("flex_olmo", intermediate_size=24, num_experts=5, num_hidden_layers=2)
    return {
        "flex_olmo": ("FlexOlmoForCausalLM", sizes | {"num_experts_per_tok": 2}),
        "flex_olmo-normalized": (
            "FlexOlmoForCausalLM",
            sizes
            | {
                "num_experts_per_tok": 3,
                "norm_topk_prob": True,
                "attention_bias": True,
                "tie_word_embeddings": True,
                "rope_parameters": t.YARN,
            },
        ),
    }

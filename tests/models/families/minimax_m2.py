"""Rows of minimax_m2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("minimax_m2",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("minimax_m2", head_dim=12, intermediate_size=24, num_local_experts=5)
    return {
        "minimax_m2": (
            "MiniMaxM2ForCausalLM",
            sizes | {"num_experts_per_tok": 2, "rotary_dim": 8},
        ),
        "minimax_m2-whole": (
            "MiniMaxM2ForCausalLM",
            sizes
            | {
                "num_experts_per_tok": 3,
                "num_hidden_layers": 2,
                "tie_word_embeddings": True,
                "rope_parameters": t.LLAMA3,
            },
        ),
    }

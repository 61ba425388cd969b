"""Rows of gemma2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("gemma2-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gemma2": (
            "Gemma2ForCausalLM",
            t.sized(
                "gemma2",
                head_dim=10,
                query_pre_attn_scalar=24,
                sliding_window=5,
                tie_word_embeddings=True,
            ),
        ),
        "gemma2-plain": (
            "Gemma2ForCausalLM",
            t.sized(
                "gemma2",
                head_dim=8,
                query_pre_attn_scalar=8,
                sliding_window=3,
                attention_bias=True,
                attn_logit_softcapping=None,
                final_logit_softcapping=None,
                layer_types=["full_attention", "sliding_attention", "sliding_attention"],
            ),
        ),
        # As llama.cpp computes these two: scores by the head's width, a fixed order of windows.
        "gemma2-gguf": (
            "Gemma2ForCausalLM",
            t.sized(
                "gemma2",
                head_dim=8,
                query_pre_attn_scalar=8,
                sliding_window=5,
                tie_word_embeddings=True,
            ),
        ),
    }

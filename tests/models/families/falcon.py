"""Rows of falcon."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "falcon",
    "falcon-gguf",
    "falcon-11b",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "falcon": ("FalconForCausalLM", t.falcon(tie_word_embeddings=True)),
        "falcon-gguf": (
            "FalconForCausalLM",
            t.falcon(new_decoder_architecture=True, num_kv_heads=2),
        ),
        "falcon-11b": (
            "FalconForCausalLM",
            t.falcon(
                new_decoder_architecture=True,
                num_kv_heads=3,
                num_ln_in_parallel_attn=1,
                ffn_hidden_size=40,
            ),
        ),
        "falcon-new": (
            "FalconForCausalLM",
            t.falcon(new_decoder_architecture=True, num_kv_heads=2, bias=True, ffn_hidden_size=40),
        ),
        "falcon-in-turn": (
            "FalconForCausalLM",
            t.falcon(multi_query=False, parallel_attn=False, rope_parameters=t.LINEAR),
        ),
        "falcon-alibi": (
            "FalconForCausalLM",
            t.falcon(
                alibi=True,
                multi_query=False,
                parallel_attn=False,
                bias=True,
                num_attention_heads=12,
            ),
        ),
        "falcon-alibi-new": (
            "FalconForCausalLM",
            t.falcon(
                alibi=True,
                new_decoder_architecture=True,
                num_kv_heads=2,
                num_ln_in_parallel_attn=1,
                tie_word_embeddings=True,
            ),
        ),
    }

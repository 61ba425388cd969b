"""Rows of mpt."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("mpt",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mpt": (
            "MptForCausalLM",
            {
                "model_type": "mpt",
                "vocab_size": 131,
                "d_model": 48,
                "n_layers": 3,
                "n_heads": 4,
                "max_seq_len": 32,
                "eos_token_id": None,
            },
        ),
        "mpt-clipped": (
            "MptForCausalLM",
            {
                "model_type": "mpt",
                "vocab_size": 131,
                "d_model": 48,
                "n_layers": 2,
                "n_heads": 6,
                "max_seq_len": 24,
                "eos_token_id": None,
                "attn_config": {"clip_qkv": 0.4, "softmax_scale": 0.5},
            },
        ),
        "mpt-groups": (
            "MPTForCausalLM",
            {
                "model_type": "mpt",
                "vocab_size": 131,
                "d_model": 48,
                "n_layers": 2,
                "n_heads": 6,
                "max_seq_len": 24,
                "no_bias": False,
                "expansion_ratio": 2,
                "logit_scale": "inv_sqrt_d_model",
                "attn_config": {
                    "alibi": False,
                    "qk_ln": True,
                    "attn_type": "grouped_query_attention",
                    "kv_n_heads": 2,
                },
            },
        ),
    }

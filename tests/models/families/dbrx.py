"""Rows of dbrx."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("dbrx",)

SIZES: dict[str, Any] = {
    "model_type": "dbrx",
    "vocab_size": 131,
    "d_model": 48,
    "n_heads": 6,
    "n_layers": 2,
    "max_seq_len": 64,
    "eos_token_id": None,
    "pad_token_id": None,
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "dbrx": (
            "DbrxForCausalLM",
            SIZES
            | {
                "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.8, "rope_theta": 10000.0},
                "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 5, "moe_top_k": 2},
            },
        ),
        "dbrx-plain": (
            "DbrxForCausalLM",
            SIZES
            | {
                "attn_config": {"kv_n_heads": 3, "clip_qkv": 8, "rope_theta": 10000.0},
                "ffn_config": {
                    "ffn_hidden_size": 20,
                    "ffn_act_fn": {"name": "gelu"},
                    "moe_num_experts": 4,
                    "moe_top_k": 3,
                    "moe_normalize_expert_weights": None,
                },
                "rope_parameters": t.LLAMA3,
            },
        ),
    }

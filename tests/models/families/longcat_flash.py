"""Rows of longcat_flash."""

from typing import Any

SIZES: dict[str, Any] = {
    "model_type": "longcat_flash",
    "vocab_size": 131,
    "hidden_size": 48,
    "num_layers": 2,
    "num_attention_heads": 4,
    "ffn_hidden_size": 40,
    "expert_ffn_hidden_size": 24,
    "max_position_embeddings": 64,
    "q_lora_rank": 20,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 7,
    "qk_rope_head_dim": 6,
    "head_dim": 6,
    "v_head_dim": 9,
    "eos_token_id": None,
    "pad_token_id": None,
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "longcat_flash": (
            "LongcatFlashForCausalLM",
            SIZES | {"n_routed_experts": 5, "zero_expert_num": 3, "moe_topk": 3},
        ),
        "longcat_flash-busy": (
            "LongcatFlashForCausalLM",
            SIZES
            | {
                "num_layers": 1,
                "n_routed_experts": 4,
                "zero_expert_num": 0,
                "moe_topk": 2,
                "attention_bias": True,
                "routed_scaling_factor": 1.5,
                "tie_word_embeddings": True,
                "rope_parameters": t.YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            },
        ),
    }

"""Rows of youtu."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "youtu": (
            "YoutuForCausalLM",
            t.sized(
                "youtu",
                num_attention_heads=4,
                num_key_value_heads=4,
                q_lora_rank=20,
                kv_lora_rank=16,
                qk_nope_head_dim=7,
                qk_rope_head_dim=6,
                v_head_dim=9,
                tie_word_embeddings=True,
            ),
        ),
        "youtu-halves": (
            "YoutuForCausalLM",
            t.sized(
                "youtu",
                num_attention_heads=4,
                num_key_value_heads=4,
                q_lora_rank=None,
                kv_lora_rank=12,
                qk_nope_head_dim=8,
                qk_rope_head_dim=4,
                v_head_dim=10,
                rope_interleave=False,
                rope_parameters=t.YARN | {"mscale_all_dim": 0.7, "mscale": 0.7},
            ),
        ),
    }

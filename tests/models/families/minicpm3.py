"""Rows of minicpm3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("minicpm3",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes: dict[str, Any] = dict.fromkeys(("num_attention_heads", "num_key_value_heads"), 4)
    sizes.update(kv_lora_rank=16, qk_nope_head_dim=6, qk_rope_head_dim=8, dim_model_base=256)
    long = t.LONG | {"original_max_position_embeddings": 6}
    return {
        "minicpm3": (
            "MiniCPM3ForCausalLM",
            t.sized(
                "minicpm3",
                **sizes,
                v_head_dim=10,
                rms_norm_eps=1e-6,
                q_lora_rank=20,
                rope_parameters=long,
            ),
        ),
        "minicpm3-plain": (
            "MiniCPM3ForCausalLM",
            t.sized(
                "minicpm3",
                **sizes | {"dim_model_base": None},
                q_lora_rank=None,
                scale_depth=None,
                scale_emb=3.5,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
            ),
        ),
    }

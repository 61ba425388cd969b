"""Rows of llama4_text."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("llama4-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "llama4": (
            "Llama4ForCausalLM",
            t.sized(
                "llama4_text",
                head_dim=8,
                num_local_experts=5,
                num_experts_per_tok=2,
                intermediate_size_mlp=72,
                interleave_moe_layer_step=2,
                attention_chunk_size=5,
                num_hidden_layers=5,
                floor_scale=64,
                attn_scale=0.3,
                rope_parameters=t.LLAMA3,
            ),
        ),
        "llama4-plain": (
            "Llama4ForCausalLM",
            t.sized(
                "llama4_text",
                head_dim=12,
                num_local_experts=4,
                num_experts_per_tok=1,
                intermediate_size_mlp=40,
                use_qk_norm=False,
                attention_chunk_size=4,
                attention_bias=True,
                no_rope_layers=[1, 0, 1],
                tie_word_embeddings=True,
                attn_temperature_tuning=False,
                num_key_value_heads=6,
            ),
        ),
        "llama4-gguf": (
            "Llama4ForCausalLM",
            t.sized(
                "llama4_text",
                head_dim=16,
                num_local_experts=4,
                num_experts_per_tok=1,
                num_hidden_layers=4,
                intermediate_size_mlp=40,
                interleave_moe_layer_step=2,
            ),
        ),
        "llama4-warm": (
            "Llama4ForCausalLM",
            t.sized(
                "llama4_text",
                head_dim=8,
                num_local_experts=3,
                num_experts_per_tok=1,
                intermediate_size_mlp=32,
                moe_layers=[2],
                no_rope_layers=[0, 1, 0],
                floor_scale=3,
                attn_scale=0.4,
            ),
        ),
    }

"""Rows of gemma4_text."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "gemma4",
    "gemma4-alike",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gemma4": (
            "Gemma4ForCausalLM",
            t.sized(
                "gemma4_text",
                num_hidden_layers=5,
                head_dim=10,
                global_head_dim=16,
                sliding_window=5,
                num_kv_shared_layers=2,
                use_double_wide_mlp=True,
                vocab_size_per_layer_input=131,
                hidden_size_per_layer_input=6,
                final_logit_softcapping=20.0,
                tie_word_embeddings=True,
                layer_types=[
                    *["sliding_attention", "sliding_attention", "full_attention"],
                    *["sliding_attention", "full_attention"],
                ],
            ),
        ),
        "gemma4-alike": (
            "Gemma4ForCausalLM",
            t.sized(
                "gemma4_text",
                head_dim=8,
                global_head_dim=12,
                num_global_key_value_heads=3,
                attention_k_eq_v=True,
                sliding_window=4,
                hidden_size_per_layer_input=0,
                layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            ),
        ),
    }

"""Rows of gemma4_unified_text."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    return {
        "gemma4_unified": (
            "Gemma4UnifiedForCausalLM",
            t.sized(
                "gemma4_unified_text",
                num_hidden_layers=4,
                head_dim=10,
                global_head_dim=16,
                num_global_key_value_heads=3,
                attention_k_eq_v=True,
                sliding_window=5,
                num_kv_shared_layers=1,
                use_double_wide_mlp=True,
                final_logit_softcapping=20.0,
                tie_word_embeddings=True,
                layer_types=kinds,
            ),
        ),
    }

"""Rows of vaultgemma."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "vaultgemma": (
            "VaultGemmaForCausalLM",
            t.sized(
                "vaultgemma",
                head_dim=10,
                query_pre_attn_scalar=24,
                sliding_window=5,
                tie_word_embeddings=True,
            ),
        ),
        "vaultgemma-biases": (
            "VaultGemmaForCausalLM",
            t.sized(
                "vaultgemma",
                head_dim=8,
                sliding_window=4,
                attention_bias=True,
                attn_logit_softcapping=None,
                final_logit_softcapping=None,
                hidden_activation="gelu",
                rope_parameters=t.LINEAR,
                layer_types=["full_attention", "sliding_attention", "full_attention"],
            ),
        ),
    }

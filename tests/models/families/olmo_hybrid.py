"""Rows of olmo_hybrid."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "olmo_hybrid": (
            "OlmoHybridForCausalLM",
            t.sized(
                "olmo_hybrid",
                layer_types=["linear_attention", "full_attention", "linear_attention"],
                # transformers writes thirds of the convolution: sizes are equal here.
                linear_key_head_dim=8,
                linear_value_head_dim=8,
                rope_parameters={"rope_type": "default", "rope_theta": None},
            ),
        ),
        "olmo_hybrid-sizes": (
            "OlmoHybridForCausalLM",
            t.sized(
                "olmo_hybrid",
                num_hidden_layers=2,
                linear_num_key_heads=2,
                linear_num_value_heads=4,
                linear_key_head_dim=14,
                linear_value_head_dim=7,
                linear_conv_kernel_dim=3,
                linear_allow_neg_eigval=False,
                attention_bias=True,
                tie_word_embeddings=True,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

"""Rows of gemma3n_text."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("gemma3n-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gemma3n": (
            "Gemma3nForCausalLM",
            t.sized(
                "gemma3n_text",
                **t.GEMMA3N,
                num_hidden_layers=6,
                num_kv_shared_layers=3,
                sliding_window=5,
                intermediate_size=[56, 40, 56, 72, 56, 40],
                tie_word_embeddings=True,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"] * 2,
                activation_sparsity_pattern=[0.95, 0.5, 0.0, 0.0, 0.2, 0.0],
                rope_parameters={
                    "full_attention": {
                        "rope_type": "linear",
                        "factor": 8.0,
                        "rope_theta": 1000000.0,
                    },
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                },
            ),
        ),
        "gemma3n-biases": (
            "Gemma3nForCausalLM",
            t.sized(
                "gemma3n_text",
                **t.GEMMA3N | {"vocab_size_per_layer_input": 131, "altup_num_inputs": 2},
                num_kv_shared_layers=0,
                altup_active_idx=1,
                altup_correct_scale=False,
                attention_bias=True,
                hidden_activation="silu",
                sliding_window=4,
                final_logit_softcapping=7.0,
                layer_types=["full_attention", "sliding_attention", "sliding_attention"],
            ),
        ),
        "gemma3n-gguf": (
            "Gemma3nForCausalLM",
            t.sized(
                "gemma3n_text",
                head_dim=10,
                vocab_size_per_layer_input=120,
                num_kv_shared_layers=0,
                sliding_window=5,
                tie_word_embeddings=True,
                intermediate_size=768,
                activation_sparsity_pattern=[0.95] * 3,
            ),
        ),
    }

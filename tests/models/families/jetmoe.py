"""Rows of jetmoe."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("jetmoe", num_hidden_layers=2, kv_channels=12, intermediate_size=24)
    del sizes["num_attention_heads"]
    return {
        "jetmoe": (
            "JetMoeForCausalLM",
            sizes | {"num_local_experts": 5, "num_experts_per_tok": 2, "rms_norm_eps": 1e-3},
        ),
        "jetmoe-tied": (
            "JetMoeForCausalLM",
            sizes
            | {
                "num_local_experts": 4,
                "num_experts_per_tok": 3,
                "num_key_value_heads": 3,
                "tie_word_embeddings": True,
                "rope_parameters": t.LLAMA3,
            },
        ),
    }

"""Rows of rwkv."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "rwkv": ("RwkvForCausalLM", {**t.MAMBA, "model_type": "rwkv", "rescale_every": 2}),
        "rwkv-sizes": (
            "RwkvForCausalLM",
            {
                **t.MAMBA,
                "model_type": "rwkv",
                "num_hidden_layers": 2,
                "attention_hidden_size": 48,
                "intermediate_size": 56,
                "layer_norm_epsilon": 0.01,
                "rescale_every": 1,
                "tie_word_embeddings": True,
            },
        ),
    }

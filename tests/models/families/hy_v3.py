"""Rows of hy_v3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("hy_v3",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("hy_v3", head_dim=12, moe_intermediate_size=24, num_experts=5)
    return {
        "hy_v3": ("HYV3ForCausalLM", sizes | {"num_experts_per_tok": 2}),
        "hy_v3-biases": (
            "HYV3ForCausalLM",
            sizes
            | {
                "num_hidden_layers": 2,
                "num_experts_per_tok": 3,
                "num_shared_experts": 2,
                "attention_bias": True,
                "mlp_bias": True,
                "tie_word_embeddings": True,
                "router_scaling_factor": 1.5,
                "mlp_layer_types": ["sparse", "dense"],
                "rope_parameters": t.LLAMA3,
            },
        ),
    }

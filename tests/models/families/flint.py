"""Rows of flint."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {"moe_intermediate_size": 24, "head_dim": 10, "sliding_window": 5}
    sizes |= {"shared_expert_intermediate_size": 20, "num_experts_per_tok": 2, "num_experts": 5}
    return {
        "flint": (
            "FlintForCausalLM",
            t.sized("flint", **sizes, num_hidden_layers=4),
        ),
        "flint-kinds": (
            "FlintForCausalLM",
            t.sized(
                "flint",
                **sizes,
                norm_topk_prob=False,
                attention_bias=True,
                tie_word_embeddings=True,
                mlp_only_layers=[1],
                decoder_sparse_step=1,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                rope_parameters=t.LINEAR,
            ),
        ),
    }

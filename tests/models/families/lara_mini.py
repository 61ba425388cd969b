"""Rows of lara_mini."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {k: v for k, v in t.sized("lara_mini").items() if k != "intermediate_size"}
    sizes |= {"moe_intermediate_size": 24, "num_experts": 5, "num_experts_per_tok": 2}
    sizes |= {"shared_expert_intermediate_size": 20, "head_dim": 10, "sliding_window": 5}
    sizes |= {"linear_key_head_dim": 6, "linear_value_head_dim": 10, "linear_num_key_heads": 2}
    sizes |= {"linear_num_value_heads": 4}
    return {
        "lara_mini": ("LaraMiniForCausalLM", sizes | {"num_hidden_layers": 4}),
        "lara_mini-kinds": (
            "LaraMiniForCausalLM",
            sizes
            | {"norm_topk_prob": False, "attention_bias": True, "tie_word_embeddings": True}
            | {"linear_conv_kernel_dim": 3, "rope_parameters": t.LINEAR}
            | {"layer_types": ["full_attention", "sliding_attention", "linear_attention"]},
        ),
    }

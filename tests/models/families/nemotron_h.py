"""Rows of nemotron_h."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("nemotron_h-dense",)

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "nemotron_h": (
            "NemotronHForCausalLM",
            {
                **{k: v for k, v in t.SIZES.items() if k != "num_hidden_layers"},
                "model_type": "nemotron_h",
                "head_dim": 10,
                "layers_block_type": ["mamba", "moe", "attention", "mlp"],
                "mamba_num_heads": 6,
                "mamba_head_dim": 9,
                "n_groups": 2,
                "ssm_state_size": 8,
                "n_routed_experts": 6,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 20,
                "moe_shared_expert_intermediate_size": 28,
                "routed_scaling_factor": 1.7,
                "time_step_min": 0.2,
            },
        ),
        "nemotron_h-latent": (
            "NemotronHForCausalLM",
            {
                **{k: v for k, v in t.SIZES.items() if k != "num_hidden_layers"},
                "model_type": "nemotron_h",
                "head_dim": 8,
                "hybrid_override_pattern": "*EM-",
                "mamba_num_heads": 4,
                "mamba_head_dim": 7,
                "n_groups": 1,
                "ssm_state_size": 5,
                "conv_kernel": 3,
                "use_conv_bias": False,
                "use_bias": True,
                "mlp_bias": True,
                "mlp_hidden_act": "silu",
                "mamba_hidden_act": "gelu_new",
                "n_routed_experts": 8,
                "n_group": 4,
                "topk_group": 2,
                "norm_topk_prob": False,
                "moe_latent_size": 24,
                "moe_intermediate_size": 20,
                "moe_shared_expert_intermediate_size": 28,
                "tie_word_embeddings": True,
            },
        ),
        "nemotron_h-dense": (
            "NemotronHForCausalLM",
            {
                **{k: v for k, v in t.SIZES.items() if k != "num_hidden_layers"},
                "model_type": "nemotron_h",
                "head_dim": 8,
                "layers_block_type": ["mamba", "mlp", "attention"],
                "mamba_num_heads": 8,
                "mamba_head_dim": 12,
                "n_groups": 2,
                "ssm_state_size": 8,
            },
        ),
    }

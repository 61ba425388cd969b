"""Rows of falcon_h1."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("falcon_h1",)

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "falcon_h1": (
            "FalconH1ForCausalLM",
            t.sized(
                "falcon_h1",
                mamba_d_ssm=40,
                mamba_n_heads=5,
                mamba_d_head=8,
                mamba_d_state=9,
                rope_parameters={"rope_type": "default", "rope_theta": 900.0},
                mlp_multipliers=[0.7, 1.3],
                key_multiplier=0.6,
                ssm_multipliers=[0.8, 1.2, 0.9, 1.1, 0.7],
                ssm_in_multiplier=1.4,
                ssm_out_multiplier=0.6,
                attention_in_multiplier=0.9,
                attention_out_multiplier=1.2,
                embedding_multiplier=3.5,
                lm_head_multiplier=0.3,
            ),
        ),
        "falcon_h1-norms": (
            "FalconH1ForCausalLM",
            t.sized(
                "falcon_h1",
                mamba_d_ssm=None,
                mamba_expand=1,
                mamba_n_heads=4,
                mamba_d_head=12,
                mamba_n_groups=2,
                mamba_d_state=7,
                mamba_d_conv=3,
                mamba_rms_norm=True,
                mamba_norm_before_gate=False,
                mamba_conv_bias=False,
                mamba_proj_bias=True,
                projectors_bias=True,
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                time_step_limit=[0.05, 0.8],
                rope_parameters=t.LLAMA3,
            ),
        ),
    }

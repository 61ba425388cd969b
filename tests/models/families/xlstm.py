"""Rows of xlstm."""

from typing import Any

KIND = "recurrent"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {**t.MAMBA, "model_type": "xlstm", "num_heads": 3}
    return {
        "xlstm": ("xLSTMForCausalLM", {**sizes, "ffn_round_up_to_multiple_of": 8, "eps": 0.01}),
        "xlstm-sizes": (
            "xLSTMForCausalLM",
            {
                **sizes,
                "num_blocks": 2,
                "num_hidden_layers": 2,
                "num_heads": 2,
                "qk_dim_factor": 0.75,
                "v_dim_factor": 0.5,
                "ffn_proj_factor": 1.2,
                "ffn_round_up_to_multiple_of": 10,
                "gate_soft_cap": 4.0,
                "output_logit_soft_cap": 2.0,
                "norm_eps": 0.001,
            },
        ),
    }

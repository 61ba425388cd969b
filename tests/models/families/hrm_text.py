"""Rows of hrm_text."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {k: v for k, v in t.sized("hrm_text").items() if k != "num_key_value_heads"}
    sizes |= {"head_dim": 10, "num_hidden_layers": 2, "H_cycles": 2, "L_cycles": 1}
    return {
        "hrm_text": (
            "HrmTextForCausalLM",
            sizes | {"rope_parameters": t.LINEAR, "embedding_scale": 2.5},
        ),
        "hrm_text-tied": (
            "HrmTextForCausalLM",
            sizes
            | {"num_hidden_layers": 1, "L_cycles": 2, "H_cycles": 1, "tie_word_embeddings": True}
            | {"initializer_range": 0.5},
        ),
    }

"""Rows of squeezebert."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "squeezebert": ("SqueezeBert", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "squeezebert": (
            "SqueezeBertModel",
            t.encoder(
                "squeezebert",
                embedding_size=24,
                k_groups=2,
                v_groups=3,
                intermediate_groups=8,
                layer_norm_eps=1e-5,
            ),
        ),
    }

"""Rows of mobilebert."""

from typing import Any

# What padding beside a text would change is not changed here.
KIND = "alone"
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "mobilebert": ("MobileBert", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mobilebert": (
            "MobileBertModel",
            t.encoder(
                "mobilebert",
                hidden_size=30,
                intermediate_size=20,
                embedding_size=10,
                intra_bottleneck_size=12,
                num_feedforward_networks=2,
            ),
        ),
        "mobilebert-norms": (
            "MobileBertModel",
            t.encoder(
                "mobilebert",
                embedding_size=24,
                trigram_input=False,
                use_bottleneck_attention=True,
                intra_bottleneck_size=18,
                normalization_type="layer_norm",
                hidden_act="gelu",
            ),
        ),
    }

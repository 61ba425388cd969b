"""Rows of xmod."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "xmod": ("Xmod", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "xmod": (
            "XmodModel",
            t.encoder("xmod", languages=["en_XX", "de_DE"], default_language="de_DE"),
        ),
        "xmod-before": (
            "XmodModel",
            t.encoder(
                "xmod",
                languages=["en_XX", "de_DE"],
                default_language="en_XX",
                pre_norm=True,
                adapter_layer_norm=True,
                adapter_reduction_factor=4,
                ln_before_adapter=False,
                hidden_act="relu",
            ),
        ),
    }

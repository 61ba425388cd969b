"""Rows of canine."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "canine": ("Canine", "SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {"num_hash_functions": 4, "num_hash_buckets": 21, "local_transformer_stride": 6}
    rates = {"downsampling_rate": 3, "upsampling_kernel_size": 4}
    return {
        "canine": ("CanineModel", t.encoder("canine", **sizes, **rates)),
    }

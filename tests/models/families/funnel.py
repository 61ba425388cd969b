"""Rows of funnel."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "funnel": ("Funnel", "MaskedLM SequenceClassification"),
}
SIZES = {
    "model_type": "funnel",
    "vocab_size": 50,
    "d_model": 24,
    "n_head": 3,
    "d_head": 6,
    "d_inner": 40,
    "block_sizes": [1, 2, 1],
    "num_decoder_layers": 1,
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    other = {"block_sizes": [1, 1], "block_repeats": [1, 2], "pooling_type": "max"}
    flags = dict.fromkeys(("separate_cls", "truncate_seq", "pool_q_only"), False)
    return {
        "funnel": ("FunnelModel", SIZES),
        "funnel-plain": ("FunnelModel", SIZES | other | flags),
    }

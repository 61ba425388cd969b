"""The sound and the tiny transducers of test_transducers.py and of its goldens."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def samples() -> npt.NDArray[np.float32]:
    """0.3 s of a tone that rises, with noise."""
    draw, at = np.random.default_rng(8), np.arange(4803) / 16000
    tone = 0.4 * np.sin(2 * np.pi * (300 + 900 * at) * at) + 0.1
    return np.asarray(tone + draw.normal(0, 0.02, at.shape), np.float32)


def transducers(table: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """transformers' class and config.json of each; `table` is families.py."""
    sizes = {
        "decoder_hidden_size": 14,
        "num_decoder_layers": 2,
        "blank_token_id": 12,
        "pad_token_id": 2,
        "max_symbols_per_step": 3,
    }
    return {
        "rnnt": ("ParakeetForRNNT", table.parakeet("parakeet_rnnt", **sizes)),
        "tdt": ("ParakeetForTDT", table.parakeet("parakeet_tdt", durations=[0, 1, 3], **sizes)),
    }

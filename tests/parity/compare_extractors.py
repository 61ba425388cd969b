"""Compare every key of the audio feature extractors, one changed at a time, with transformers.

    python tests/parity/compare_extractors.py

Needs transformers and torch, and the product on PYTHONPATH. Each value of VALUES is set alone in
a preprocessor_config.json. Where transformers' features of a second of noise become others, the
file must be refused here by its key; where they stay, it may be read or ignored.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import transformers

import rushlight as rl
from rushlight.models.audio.mel import LogMel
from rushlight.models.layers.speech.samples import (
    normalized,
    stored_normalization,
    stored_settings,
)

transformers.logging.set_verbosity_error()
VALUES: dict[str, list[Any]] = {
    "feature_size": [2, 64], "sampling_rate": [8000, None], "hop_length": [320, None],
    "n_fft": [512], "chunk_length": [15, 31], "padding_value": [0.5, -1, 0, 0.0],
    "padding_side": ["left", "right"], "dither": [0.1, 0.0, 0],
    "do_normalize": [True, False, None], "return_attention_mask": [True, False, None],
    "max_frequency": [4000], "mel_filters": [[[0.0]]], "n_samples": [3], "nb_max_frames": [3],
    "unknown": [1], "processor_class": ["X"], "mel_floor": [1], "preemphasis": [0.97],
}  # fmt: skip


def reference(kind: str, settings: dict[str, Any], samples: np.ndarray) -> np.ndarray | str:
    """transformers' features, or why there are none."""
    try:
        made = getattr(transformers, kind).from_dict(json.loads(json.dumps(settings)))
        return np.asarray(next(iter(made(samples).values()))[0])
    except Exception as error:  # whatever a value makes it raise
        return f"{type(error).__name__}: {str(error)[:90]}"


def product(kind: str, settings: dict[str, Any], samples: np.ndarray) -> np.ndarray | str:
    """Our features, or what they are refused with."""
    files = {"preprocessor_config.json": json.dumps(settings).encode()}
    try:
        if kind.startswith("Wav2Vec2"):
            return normalized(samples) if stored_normalization(files, True) else samples
        stored_settings(files, kind, feature_size=80)
    except rl.FormatError as error:
        return str(error)
    whole = np.zeros(30 * 16000, np.float32)
    whole[: len(samples)] = samples
    return LogMel(80)(rl.tensor(whole)).numpy()


def main() -> None:
    counts: Counter[str] = Counter()
    samples = np.random.default_rng(0).normal(size=16000).astype(np.float32) * 0.1 + 0.05
    for kind in ("WhisperFeatureExtractor", "Wav2Vec2FeatureExtractor"):
        cases = [(key, value) for key, values in VALUES.items() for value in values]
        for key, value in cases:
            settings = {"feature_extractor_type": kind, key: value}
            expected, found = reference(kind, settings, samples), product(kind, settings, samples)
            if isinstance(found, str):
                verdict = "refused" if key in found else "UNNAMED"
                verdict = "both refuse" if isinstance(expected, str) else verdict
            elif isinstance(expected, str):
                verdict = "taken here alone"
            else:
                same = found.shape == expected.shape and np.abs(found - expected).max() < 1e-4
                verdict = "equal" if same else "SILENT"
            counts[verdict] += 1
            if verdict not in ("equal", "both refuse"):
                print(kind, verdict, key, value)
    print(dict(counts))


if __name__ == "__main__":
    main()

"""Transducers, and the features of recognizers, against transformers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.audio.fbank import fbank, scaled_bins
from rushlight.models.layers.speech.letters import Letters
from rushlight.models.layers.speech.parakeet import mel_features
from rushlight.models.speech.transducer import TransducerTranscriber
from rushlight.models.tasks.pipeline import parts
from rushlight.models.tasks.registry import find

PLACE = Path(__file__).parent / "data" / "recognizers.safetensors"
CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(scope="module")
def sounds() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "recognizers", Path(__file__).parent / "recognizers.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def golden() -> dict[str, Any]:
    return {name: t.numpy() for name, t in load_safetensors(PLACE).items()}


def test_features_are_the_references(sounds: ModuleType) -> None:
    samples, wanted = sounds.samples(), golden()
    pairs = scaled_bins(fbank(samples, 20))
    pairs = pairs[: len(pairs) // 2 * 2].reshape(-1, 40)
    np.testing.assert_allclose(pairs, wanted["seamless"], rtol=1e-3, atol=2e-3)
    np.testing.assert_allclose(mel_features(samples, 20), wanted["parakeet"], rtol=1e-3, atol=2e-3)
    assert fbank(np.zeros(399, np.float32)).shape == (0, 80)
    assert not scaled_bins(fbank(samples[:400])).any()


@pytest.mark.parametrize("name", ["rnnt", "tdt"])
def test_a_transducer_writes_what_the_references_does(
    name: str, table: ModuleType, device: str
) -> None:
    told, wanted = json.loads(open_tables(PLACE)[0][1].metadata["models"])[name], golden()
    tensors = {n: rl.tensor(table.values_of(n, tuple(s))) for n, s in told["names"].items()}
    files = {"config.json": json.dumps(told["config"]).encode()}
    model = rl.models.assemble(files, tensors, device=device)
    features = rl.tensor(table.features_of(told["config"])[:1], device=device)
    ids = rl.tensor(table.decoder_ids_of(13)[:1, :4], device=device)
    with rl.no_grad():
        scores = model(features, ids).numpy()
        np.testing.assert_allclose(scores, wanted[f"{name}.logits"], **CLOSE)
        frames = model.encoder_projector(model.encoded(features, None)[0])[0]
    model.letters = Letters(tuple(" abcdefghijkl"), 12)
    options = find("automatic-speech-recognition").checked({})
    steps = parts(TransducerTranscriber(model, options).tokens(frames))
    with pytest.raises(StopIteration) as ended:
        next(steps)
    spans = ended.value.value
    # The reference's first token stands before the text, and its durations before tokens' frames.
    tokens, durations = (wanted[f"{name}.{key}"] for key in ("ids", "durations"))
    at = np.cumsum(durations)[:-1]
    said = [(int(n), int(f)) for n, f in zip(tokens[1:], at, strict=True) if n != 12]
    assert [(n, first) for n, first, *_ in spans] == said != []

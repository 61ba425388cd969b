"""Make the goldens of voice activity with the package silero-vad.

    python tests/parity/make_activity_goldens.py BECKETT.WAV

Needs silero-vad, onnxruntime, soundfile and torch. Writes tests/models/data/activity.json:
"probabilities" of the recording by rate, at 8 kHz of every other sample; "tracks": drawn
probabilities, with the package's segments (samples) for settings in seconds.
"""

from __future__ import annotations

import json
import math
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import soundfile
from silero_vad.utils_vad import get_speech_timestamps_from_probs

TARGET = Path(__file__).parent.parent / "models" / "data" / "activity.json"
SETTINGS: list[dict[str, float]] = [
    {},
    {"threshold": 0.3, "min_silence": 0.5},
    {"min_speech": 0.0, "padding": 0.2},
    {"max_speech": 1.5},
    {"max_speech": 0.6, "min_silence": 0.3, "padding": 0.0},
]


def heard(samples: Any, rate: int) -> list[float]:
    """The probabilities of samples by the package's graph."""
    graph = files("silero_vad") / "data" / "silero_vad.onnx"
    session = onnxruntime.InferenceSession(str(graph))
    chunk = 512 if rate == 16000 else 256
    state, before = np.zeros((2, 1, 128), np.float32), np.zeros((1, chunk // 8), np.float32)
    found = []
    for at in range(0, len(samples), chunk):
        part = np.zeros((1, chunk), np.float32)
        part[0, : len(samples) - at] = samples[at : at + chunk]
        given = {"input": np.concatenate([before, part], 1), "state": state, "sr": np.array(rate)}
        out, state = session.run(None, given)
        before = part[:, -chunk // 8 :]
        found.append(round(float(out[0, 0]), 7))
    return found


def segments(track: list[float], rate: int, total: int, told: dict[str, float]) -> list[list[int]]:
    """The package's segments of a track."""
    parts = get_speech_timestamps_from_probs(
        track,
        rate,
        told.get("threshold", 0.5),
        told.get("min_speech", 0.25) * 1000,
        told.get("max_speech", math.inf),
        told.get("min_silence", 0.1) * 1000,
        told.get("padding", 0.03) * 1000,
        audio_length_samples=total,
    )
    return [[p["start"], p["end"]] for p in parts]


def main(recording: str) -> None:
    samples, rate = soundfile.read(recording, dtype="float32")
    assert rate == 16000
    probabilities = {16000: heard(samples, 16000), 8000: heard(samples[::2], 8000)}
    tracks: list[Any] = []
    draw = np.random.default_rng(3)
    for number, rate in enumerate((16000, 8000, 16000, 8000)):
        steps = draw.normal(size=160) * (0.5 + number)
        walk = 1 / (1 + np.exp(-np.clip(np.cumsum(steps), -4, 4)))
        track = [round(float(p), 3) for p in walk]
        total = len(track) * (512 if rate == 16000 else 256) - 77
        found = [segments(track, rate, total, told) for told in SETTINGS]
        tracks.append({"rate": rate, "samples": total, "track": track, "segments": found})
    TARGET.write_text(
        json.dumps({"probabilities": probabilities, "settings": SETTINGS, "tracks": tracks}) + "\n"
    )
    print(TARGET.stat().st_size, "bytes", [[len(s) for s in t["segments"]] for t in tracks])


if __name__ == "__main__":
    main(sys.argv[1])

"""Who speaks when: pieces are divided among speakers, and speakers of pieces told by their voices.

As pyannote.audio's pipeline (Bredin, 2023) does: pieces that overlap, a voice's vector of each
speaker of a piece, clusters of these, and the likeliest speakers of each frame by all pieces.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import Device
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.models.audio.inputs import Sound, finite
from rushlight.models.layers.sound.voices import raised
from rushlight.models.loading import load
from rushlight.models.model import Model
from rushlight.models.speech.clustering import (
    average_linkage,
    cosine_distances,
    groups,
    without_small,
)
from rushlight.models.tasks.record import Progress, Run

Spoken = npt.NDArray[np.bool_]
_AT_ONCE = 8  # pieces
_ALONE = 0.4  # seconds of speech that a vector is made of, at least
_SMALL = 12  # vectors of a group, at most a tenth of all, below which it joins another


@lru_cache(1)
def _loaded(name: str, device: Device) -> Model:
    return load(name, device=device)


def voices_of(name: str, device: Device) -> Model:
    """The model `name` that tells voices; ValueError in a page, and for one of other tasks."""
    if sys.platform == "emscripten":
        raise ValueError(
            "voices is a name of a model that a page loads by itself, which is not supported for "
            "speaker-diarization yet; run it natively"
        )
    from rushlight.models.tasks.registry import check_served

    model = _loaded(name, device)
    check_served(model, "speaker-verification")
    return model


def pieces(count: int, frames: int, step: int) -> list[int]:
    """The first frames of pieces of `frames`, every `step`, that cover `count` frames."""
    return list(range(0, max(1, count - frames + step), step))


def diarized(model: Any, samples: Sound, options: Mapping[str, Any]) -> Run:
    """{"duration", "speakers", "segments"} of samples (n,) at the model's rate; see the task."""
    rate, hop = model.rate, model.step
    size = model.seconds * rate
    frames = model.frames(size)
    total = max(1, -(-len(samples) // hop))
    step = max(1, round(options["step"] * rate / hop))
    starts = pieces(total, frames, step)
    spoken: list[Spoken] = []
    for first in range(0, len(starts), _AT_ONCE):
        group = starts[first : first + _AT_ONCE]
        rows = [_cut(samples, start * hop, size) for start in group]
        with no_grad():
            scores = model(tensor(np.stack(rows), device=model.device)).float()
        spoken += [*model.spoken(np.asarray((yield scores.readback())))]
        yield Progress("listen", min((group[-1] * hop + size) // rate, -(-len(samples) // rate)),
                       -(-len(samples) // rate))  # fmt: skip
    vectors, whose = yield from _vectors(model, samples, starts, spoken, options["voices"])
    labels = labelled(vectors, options["threshold"], options["speakers"])
    active = joined(spoken, starts, whose, labels, total, frames)
    return {
        "duration": len(samples) / rate,
        **told(active, hop / rate, (model.least - hop) / 2 / rate, len(samples) / rate, options),
    }


def _cut(samples: Sound, start: int, size: int) -> npt.NDArray[np.float32]:
    """Samples from one on, filled up with silence."""
    piece = finite(np.asarray(samples[start : start + size], np.float32))
    return np.pad(piece, (0, size - len(piece)))


def _vectors(
    model: Any, samples: Sound, starts: Sequence[int], spoken: Sequence[Spoken], name: str
) -> Run:
    """The voices' vectors of speakers of pieces, and (piece, speaker) of each."""
    vectors, whose, least = [], list[tuple[int, int]](), _ALONE * model.rate / model.step
    if not any(piece.any() for piece in spoken):
        return np.zeros((0, 1)), whose
    voices: Any = voices_of(name, model.device)
    size, before = model.seconds * model.rate, (model.least - model.step) // 2
    for i, (start, piece) in enumerate(zip(starts, spoken, strict=True)):
        sound = _cut(samples, start * model.step, size) if piece.any() else None
        for speaker in range(piece.shape[1]):
            alone = piece[:, speaker] & (piece.sum(1) == 1)
            heard = alone if alone.sum() >= least else piece[:, speaker]
            if sound is None or heard.sum() < least:
                continue
            mask = np.zeros(size, np.bool_)
            inside = np.repeat(heard, model.step)[: size - before]
            mask[before : before + len(inside)] = inside
            if not sound[mask].any():
                continue
            with no_grad():
                vector = voices.voice(raised(sound[mask])).float()
            vectors.append(np.asarray((yield vector.readback()), np.float64))
            whose.append((i, speaker))
        yield Progress("voices", i + 1, len(starts))
    return np.stack(vectors) if vectors else np.zeros((0, 1)), whose


def labelled(
    vectors: npt.NDArray[np.float64], far: float, count: int | None
) -> npt.NDArray[np.int64]:
    """The speaker of each vector (n, size): groups within the distance `far`, or `count` groups."""
    if len(vectors) < 2:
        return np.zeros(len(vectors), np.int64)
    found = groups(average_linkage(cosine_distances(vectors)), far, count)
    if count is not None:
        return found
    least = min(_SMALL, max(1, round(0.1 * len(vectors))))
    return without_small(vectors, found, least)


def joined(
    spoken: Sequence[Spoken],
    starts: Sequence[int],
    whose: Sequence[tuple[int, int]],
    labels: npt.NDArray[np.int64],
    total: int,
    frames: int,
) -> Spoken:
    """Whether each speaker speaks in each of `total` frames: (total, speakers).

    As many as pieces say in the mean, those that most pieces say. `whose` has the piece and the
    speaker in it of each label.
    """
    speakers = int(labels.max()) + 1 if len(labels) else 0
    votes = np.zeros((total + frames, speakers))
    said, covered = np.zeros(total + frames), np.zeros(total + frames)
    for start, piece in zip(starts, spoken, strict=True):
        said[start : start + len(piece)] += piece.sum(1)
        covered[start : start + len(piece)] += 1
    each: dict[tuple[int, int], Spoken] = {}
    for (i, speaker), label in zip(whose, labels.tolist(), strict=True):
        column = spoken[i][:, speaker]
        each[i, label] = each[i, label] | column if (i, label) in each else column
    for (i, label), column in each.items():
        votes[starts[i] : starts[i] + len(column), label] += column
    counts = np.rint(said / np.maximum(covered, 1))[:total].astype(int)
    votes = votes[:total]
    order = np.argsort(-votes, 1, kind="stable")
    places = np.argsort(order, 1, kind="stable")
    return np.asarray((places < counts[:, None]) & (votes > 0))


def told(
    active: Spoken, step: float, first: float, duration: float, options: Mapping[str, Any]
) -> dict[str, Any]:
    """ "speakers" and "segments" of frames (total, speakers) that are `step` seconds apart.

    first: the second at which the first frame begins. Pauses of a speaker of at most min_silence
    are filled, then speech below min_speech is dropped. Speakers are named as they appear.
    """
    turns: list[tuple[float, float, int]] = []
    for speaker in range(active.shape[1]):
        edges = np.flatnonzero(np.diff(np.pad(active[:, speaker].astype(np.int8), 1)))
        spans = (edges.reshape(-1, 2) * step + first).tolist()
        kept: list[list[float]] = []
        for start, end in spans:
            if kept and start - kept[-1][1] <= options["min_silence"]:
                kept[-1][1] = end
            else:
                kept.append([start, end])
        bounds = ((start if start > first else 0.0, min(end, duration)) for start, end in kept)
        turns += [(a, b, speaker) for a, b in bounds if b - a >= options["min_speech"] and a < b]
    turns.sort()
    names: dict[int, str] = {}
    for _, _, speaker in turns:
        names.setdefault(speaker, f"SPEAKER_{len(names):02d}")
    return {
        "speakers": len(names),
        "segments": [
            {"start": round(start, 3), "end": round(end, 3), "speaker": names[speaker]}
            for start, end, speaker in turns
        ],
    }

"""Times of words: dynamic time warping of the decoder's attention to the audio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
FRAME = 0.02  # seconds of an encoder's frame
_ENDS = ".。!！?？"
_BEFORE, _AFTER = "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"
_SPACELESS = {"zh", "ja", "th", "lo", "my", "yue"}


def align(weights: npt.NDArray[np.floating], lead: int, frames: int) -> tuple[Matrix, Matrix]:
    """Rows and columns of the cheapest path through attention (heads, tokens, frames).

    The weights of the first `frames` are normalized over all tokens, smoothed by a median over 7
    frames and averaged over heads (openai/whisper, 2022); their negatives are the costs. The path
    leaves out the first `lead` tokens and the last one.
    """
    w = np.asarray(weights, np.float64)[:, :, :frames]
    w = w / np.maximum(w.sum(-1, keepdims=True), 1e-30)
    w = (w - w.mean(1, keepdims=True)) / np.maximum(w.std(1, keepdims=True), 1e-10)
    wide = np.pad(w, ((0, 0), (0, 0), (3, 3)), "reflect") if frames > 3 else w
    if frames > 3:
        w = np.median(np.lib.stride_tricks.sliding_window_view(wide, 7, -1), -1)
    return warp(-w.mean(0)[lead:-1])


def warp(cost: Matrix) -> tuple[Matrix, Matrix]:
    """The path of least cost from one corner of (n, m) to the other: its rows and its columns.

    Sakoe and Chiba (1978), with steps down, right and diagonal; where costs are equal, diagonal
    comes last.
    """
    n, m = cost.shape
    total = np.full((n + 1, m + 1), np.inf)
    total[0, 0] = 0
    step = np.zeros((n + 1, m + 1), np.int8)
    step[0, :], step[:, 0] = 2, 1
    for d in range(2, n + m + 1):  # along antidiagonals, whose elements do not depend on another
        i = np.arange(max(1, d - m), min(n, d - 1) + 1)
        j = d - i
        ways = np.stack([total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]])
        diagonal = (ways[0] < ways[1]) & (ways[0] < ways[2])
        down = ~diagonal & (ways[1] < ways[0]) & (ways[1] < ways[2])
        kind = np.where(diagonal, 0, np.where(down, 1, 2))
        total[i, j] = cost[i - 1, j - 1] + ways[kind, np.arange(len(i))]
        step[i, j] = kind
    corner, path = (n, m), []
    while corner[0] > 0 or corner[1] > 0:
        path.append((corner[0] - 1, corner[1] - 1))
        kind = step[corner]
        corner = (corner[0] - (kind != 2), corner[1] - (kind != 1))
    rows, columns = np.array(path[::-1]).T
    return rows, columns


def split(tokenizer: Any, tokens: Sequence[int], language: str | None) -> list[list[int]]:
    """The tokens of each word; a punctuation mark is a word of its own here.

    A character's bytes may be several tokens, which stay together. In languages without spaces
    every such group is a word.
    """
    pieces: list[list[int]] = []
    pending: list[int] = []
    for token in tokens:
        pending.append(token)
        if "\ufffd" not in tokenizer.decode(pending):
            pieces.append(pending)
            pending = []
    if pending:
        pieces.append(pending)
    if language in _SPACELESS:
        return pieces
    words: list[list[int]] = []
    for piece in pieces:
        text = tokenizer.decode(piece)
        mark = len(text.strip()) == 1 and not text.strip().isalnum()
        if not words or text.startswith(" ") or mark:
            words.append(list(piece))
        else:
            words[-1] += piece
    return words


def rounded(segment: dict[str, Any]) -> dict[str, Any]:
    """The segment, with its numbers and its words' to four places."""
    for timed_text in (segment, *segment["words"]):
        timed_text.update({k: round(v, 4) for k, v in timed_text.items() if isinstance(v, float)})
    return segment


def timed(
    tokenizer: Any,
    tokens: Sequence[int],
    logs: Sequence[float],
    weights: npt.NDArray[np.floating],
    lead: int,
    frames: int,
    language: str | None,
) -> list[dict[str, Any]]:
    """Words with start, end (seconds) and probability, of text tokens and their attention.

    weights: (heads, lead + tokens + 2, all frames): of the tokens before, of the one that precedes
    the text, and of the end, too. Marks of punctuation
    are words here: `joined` makes them part of the words beside them.
    """
    if not tokens or frames < 1:
        return []
    rows, columns = align(weights, lead, frames)
    first = np.flatnonzero(np.diff(rows, prepend=-1))  # where the path goes on to each token
    starts = columns[first] * FRAME
    words: list[dict[str, Any]] = []
    first_token = 0
    for word in split(tokenizer, tokens, language):
        stop = first_token + len(word)
        words.append(
            {
                "word": tokenizer.decode(word),
                "start": float(starts[first_token]),
                "end": float(starts[stop]),
                "probability": float(np.exp(np.mean(np.asarray(logs[first_token:stop])))),
            }
        )
        first_token = stop
    return bounded(words)


def joined(words: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Marks joined to the next word or to the one before, without their times."""
    out: list[dict[str, Any]] = []
    lead = ""
    for word in words:
        text = word["word"].strip()
        if out and text and all(c in _AFTER for c in text) and not word["word"].startswith(" "):
            out[-1]["word"] += word["word"]
        elif text and all(c in _BEFORE for c in text):
            lead += word["word"]
        else:
            out.append({**word, "word": lead + word["word"]})
            lead = ""
    if lead and out:
        out[-1]["word"] += lead
    return out


def usual_length(words: Sequence[Mapping[str, Any]]) -> float:
    """The median length of words, at most 0.7 s; 0 without any."""
    lengths = [w["end"] - w["start"] for w in words if w["end"] > w["start"]]
    return min(0.7, float(np.median(lengths))) if lengths else 0.0


def bounded(words: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Marks that end a sentence, and words after one, last at most twice the usual: not a pause."""
    most = 2 * usual_length(words)
    for before, word in pairwise(words):
        if word["end"] - word["start"] <= most:
            continue
        if word["word"] in _ENDS:
            word["end"] = word["start"] + most
        elif before["word"] in _ENDS:
            word["start"] = word["end"] - most
    return words


def fit(segment: dict[str, Any], usual: float, spoken: float) -> None:
    """Let a segment and its words agree on where it begins and ends, after speech until `spoken`.

    A first word that reaches back into a pause is shortened. A timestamp that the model wrote
    overrules the words where they differ by over half a second.
    """
    words, most = segment["words"], 2 * usual
    first, last = words[0], words[-1]
    long = first["end"] - first["start"] > most or (
        len(words) > 1 and words[1]["end"] - first["start"] > 2 * most
    )
    if first["end"] - spoken > 4 * usual and long:
        if len(words) > 1 and words[1]["end"] - words[1]["start"] > most:
            edge = max(words[1]["end"] / 2, words[1]["end"] - most)
            first["end"] = words[1]["start"] = edge
        first["start"] = max(0.0, first["end"] - most)
    if first["start"] + 0.5 < segment["start"] < first["end"]:
        first["start"] = max(0.0, min(first["end"] - usual, segment["start"]))
    else:
        segment["start"] = first["start"]
    if last["start"] < segment["end"] < last["end"] - 0.5:
        last["end"] = max(last["start"] + usual, segment["end"])
    else:
        segment["end"] = last["end"]


def clamp(segment: dict[str, Any], end: float) -> None:
    """Let a segment and its words end where the clip ends."""
    for item in (segment, *segment["words"]):
        item["end"] = min(item["end"], end)
        item["start"] = min(item["start"], item["end"])

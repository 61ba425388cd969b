"""Partial transcripts of speech that goes on, merged: words on which two agree, where two join."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

Word = dict[str, Any]
PAUSE, LONG = 1.0, 8.0  # seconds between segments, and of one that ends at the next comma
SENTENCE = re.compile(r"[.?!。？！][\"'”’)]*$")  # its end
_LAST, _NEAR = 6, 2  # words that are compared where transcripts join, and how far off times may be


def bare(word: Word) -> str:
    """A word as it is compared."""
    return re.sub(r"[\W_]", "", word["word"].lower())


def agreed(a: Sequence[Word], b: Sequence[Word]) -> int:
    """How many words two lists begin with in common, whatever their case and marks are."""
    count = 0
    while count < min(len(a), len(b)) and bare(a[count]) == bare(b[count]):
        count += 1
    return count


def joint(words: Sequence[Word], segments: Sequence[dict[str, Any]], guess: int) -> int:
    """How many of the words are in the segments: about `guess`, where most words before agree."""
    segment_words = [bare(w) for s in segments[-_LAST:] for w in s["words"]][-_LAST:]

    def alike(count: int) -> int:
        pairs = zip(reversed(words[:count]), reversed(segment_words), strict=False)
        return sum(1 for _ in takewhile(lambda pair: bare(pair[0]) == pair[1], pairs))

    near = range(max(0, guess - _NEAR), min(len(words), guess + _NEAR) + 1)
    return max(near, key=lambda count: (alike(count), -abs(count - guess)))


def grouped(words: Sequence[Word]) -> list[dict[str, Any]]:
    """Words as segments: cut at ends of sentences, at pauses, and at commas of long ones."""
    groups: list[list[Word]] = []
    for word in words:
        group = groups[-1] if groups else []
        last = group[-1] if group else None
        ends = last is not None and (
            SENTENCE.search(last["word"])
            or word["start"] - last["end"] > PAUSE
            or (last["end"] - group[0]["start"] > LONG and last["word"][-1:] in ",;:")
        )
        if last is None or ends:
            groups.append([word])
        else:
            group.append(word)
    return [
        {
            "start": g[0]["start"],
            "end": g[-1]["end"],
            "text": "".join(w["word"] for w in g),
            "probability": float(np.mean([w["probability"] for w in g])),
            "words": g,
        }
        for g in groups
    ]


def spread(segment: dict[str, Any]) -> list[Word]:
    """The words of a segment without times: evenly in its span."""
    texts = segment["text"].split()
    step = (segment["end"] - segment["start"]) / max(1, len(texts))
    return [
        {
            "word": f" {text}",
            "start": segment["start"] + i * step,
            "end": segment["start"] + (i + 1) * step,
            "probability": segment["probability"],
        }
        for i, text in enumerate(texts)
    ]

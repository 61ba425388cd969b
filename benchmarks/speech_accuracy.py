"""Word errors of Whisper over minutes of speech, silence and noise, beside faster-whisper.

    python benchmarks/speech_accuracy.py [--minutes 12] [--draws 5]

The same weights, greedily. Word error rates are edits of words over the words that are said. Which
sentence a window begins with decides much, so there are several draws of the order.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import HERE, markdown, run, tell
from peers import FASTER_WHISPER, pypi
from speech_mix import mixed
from turns import python_side, sides

sys.path.append(str(HERE.parent / "tests" / "models"))
from recordings import spoken, word_errors

MODEL = "whisper-tiny.en"
KINDS = {"rushlight": ("float16", "q8_0"), "faster-whisper": ("float32", "int8")}


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Each contender and precision, once for each draw."""
    from rushlight.models.hub.names import resolve

    command, env = python_side("python.py", chosen.threads)
    other, theirs = python_side("python.py", chosen.threads, pypi(FASTER_WHISPER))
    commands = {
        "rushlight": ([*command, "rushlight"], env),
        "faster-whisper": ([*other, "faster-whisper"], theirs),
    }
    results = []
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"mix{draw}.wav" for draw in range(chosen.draws)]
        texts = [mixed(path, 60 * chosen.minutes, draw) for draw, path in enumerate(paths)]
        for name, kinds in KINDS.items():
            for kind in kinds[: 1 if chosen.float_only else 2]:
                row: dict[str, Any] = {"who": name, "kind": kind}
                results.append(row | {"errors": [], "texts": [], "seconds": []})
                for path, text in zip(paths, texts, strict=True):
                    with sides({name: commands[name]}) as started:
                        started[name].ask("listen", folder=str(resolve(MODEL)), dtype=kind)
                        answer = started[name].ask("transcribe", path=str(path))
                    off = word_errors(answer["text"], text)
                    for key, value in (
                        ("errors", off),
                        ("texts", answer["text"]),
                        ("seconds", answer["seconds"]),
                    ):
                        results[-1][key].append(value)
                    tell(f"{name}, {kind}: {off:.2%} of the words are wrong")
    return {
        "results": results,
        "words": [len(spoken(text)) for text in texts],
        "minutes": chosen.minutes,
        "versions": dict(FASTER_WHISPER),
    }


def table(result: dict[str, Any]) -> str:
    """Word error rates: of all draws together, and of each."""
    words = result["words"]
    rows = []
    for r in result["results"]:
        all_ = sum(off * n for off, n in zip(r["errors"], words, strict=True)) / sum(words)
        rows.append([r["who"], r["kind"], *(f"{100 * off:.2f} %" for off in (all_, *r["errors"]))])
    head = [
        f"{len(words)} times {result['minutes']} minutes, {sum(words):,} words",
        "weights",
        "word errors",
        *(f"draw {i}" for i in range(len(words))),
    ]
    return markdown(head, rows)


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--minutes": {"type": int, "default": 12, "help": "the length of the mix"},
        "--draws": {"type": int, "default": 5, "help": "how many mixes"},
        "--float-only": {"action": "store_true", "help": "leave out the weights of 8 bits"},
        "--threads": {"type": int, "default": 1, "help": "of each contender"},
    }
    run("speech_accuracy", __doc__, {"native": native}, table, options)

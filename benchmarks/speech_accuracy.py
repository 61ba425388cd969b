"""Word errors of Whisper over minutes of speech, silence and noise, beside faster-whisper.

    python benchmarks/speech_accuracy.py [--minutes 12]

The same weights, greedily. Word error rates are edits of words over the words that are said.
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
    """Each contender and precision once."""
    from rushlight.core.io.hub.names import resolve

    own, env = python_side("python.py", chosen.threads)
    other, paths = python_side("python.py", chosen.threads, pypi(FASTER_WHISPER))
    commands = {"rushlight": ([*own, "rushlight"], env),
                "faster-whisper": ([*other, "faster-whisper"], paths)}  # fmt: skip
    results = []
    with TemporaryDirectory() as made:
        path = Path(made) / "mix.wav"
        text = mixed(path, 60 * chosen.minutes)
        for name, kinds in KINDS.items():
            for kind in kinds[: 1 if chosen.float_only else 2]:
                with sides({name: commands[name]}) as at:
                    at[name].ask("listen", folder=str(resolve(MODEL)), dtype=kind)
                    found = at[name].ask("transcribe", path=str(path))
                off = word_errors(found["text"], text)
                results.append({"who": name, "kind": kind, "errors": off, "text": found["text"],
                                "seconds": found["seconds"]})  # fmt: skip
                tell(f"{name}, {kind}: {off:.2%} of the words are wrong")
    return {"results": results, "words": len(spoken(text)), "minutes": chosen.minutes,
            "versions": dict(FASTER_WHISPER)}  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Word error rates."""
    rows = [[r["who"], r["kind"], f"{100 * r['errors']:.2f} %"] for r in result["results"]]
    head = [f"{result['minutes']} minutes, {result['words']} words", "weights", "word errors"]
    return markdown(head, rows)


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--minutes": {"type": int, "default": 12, "help": "the length of the mix"},
        "--float-only": {"action": "store_true", "help": "leave out the weights of 8 bits"},
        "--threads": {"type": int, "default": 1, "help": "of each contender"},
    }
    run("speech_accuracy", __doc__, {"native": native}, table, options)

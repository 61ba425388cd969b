"""Whisper beside faster-whisper and whisper.cpp with the same weights: seconds for a recording.

    python benchmarks/speech.py native [--threads 1,2]
    python benchmarks/speech.py tab

All decode greedily, by windows with their defaults otherwise. Texts are compared with what is read
first: a contender that hears otherwise ends the run. In the tab the peer is whisper.cpp's build for
WebAssembly, @transcribe/shout, with one thread. Its module is compiled for threads, so the page is
cross-origin isolated; a sample of 10 s of speech takes it about 20 s.
"""

from __future__ import annotations

import argparse
import base64
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import HERE, markdown, opened, run, served, step, tell_row
from peers import FASTER_WHISPER, SHOUT, WEB, WHISPER_CPP, npm, pypi
from speech_mix import voice, written
from turns import Processor, alternate, compared, measured, python_side, sides

sys.path.append(str(HERE.parent / "tests" / "models"))
from recordings import TEXTS, word_errors

MODEL = "whisper-tiny.en"
# The dtypes of weights of Rushlight, of faster-whisper and of whisper.cpp.
PRECISIONS = {"float": ("float16", "float32", "float16"), "8 bits": ("q8_0", "int8", "q8_0")}
MOST_ERRORS = 0.05


def check(who: str, name: str, text: str) -> None:
    """End the run where more than a few words are wrong."""
    if (off := word_errors(text, TEXTS[name])) > MOST_ERRORS:
        raise SystemExit(f"{who}: {off:.0%} of {name}'s words are wrong: {text}")


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads and precision."""
    from whisper_ggml import ggml_file

    from rushlight.core.io.hub.fetch import cache_dir
    from rushlight.models.hub.names import resolve

    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    folder = str(resolve(MODEL))
    ggml = {k: str(ggml_file(MODEL, k, cache_dir() / "benchmarks")) for k in ("float16", "q8_0")}
    for threads in map(int, chosen.threads.split(",")):
        commands = {}
        for name, packages in (
            ("rushlight", None),
            ("faster-whisper", FASTER_WHISPER),
            ("whisper.cpp", WHISPER_CPP),
        ):
            place = None if packages is None else pypi(packages)
            command, env = python_side("python.py", threads, place)
            commands[name] = [*command, name], env
        for precision in chosen.precisions.split(","):
            kinds = PRECISIONS[precision]
            with sides(commands) as started, TemporaryDirectory() as folder_of_sound:
                for kind, (who, side) in zip(kinds, started.items(), strict=True):
                    model = ggml[kind] if who == "whisper.cpp" else folder
                    side.ask("listen", folder=model, dtype=kind)
                for name in chosen.recordings.split(","):
                    path = str(written(Path(folder_of_sound) / f"{name}.wav", voice(name)))

                    def sample(
                        who: str, _: int, at: Any = started, path: str = path, name: str = name
                    ) -> dict[str, float]:
                        answer: dict[str, Any] = at[who].ask("transcribe", path=path)
                        check(who, name, answer.pop("text"))
                        return answer

                    what = f"{name}, {precision}"
                    row = measured(started, sample, chosen.rounds or 3, what, threads)
                    results.append(row)
                    tell_row(cells(row))
                for side in started.values():
                    versions |= side.ask("about")
    return {"results": results, "versions": {**versions, **FASTER_WHISPER, **WHISPER_CPP}}


PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/speech.js"></script>"""


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Both in one page, one thread each."""
    from whisper_ggml import ggml_file

    from rushlight.core.io.hub.fetch import cache_dir

    folders = {
        "": chosen.site,
        "node_modules": npm(WEB),
        "web": HERE / "web",
        "ggml.bin": ggml_file(MODEL, "float16", cache_dir() / "benchmarks"),
    }
    names = ["rushlight", "whisper.cpp"]
    results: list[dict[str, Any]] = []
    with served(PAGE, folders, isolated=True) as address, opened(address) as page:
        page.wait_for_function("window.bench")
        with step(f"load {', '.join(names)}"):
            info = page.evaluate("(names) => bench.open(names)", names)
        spent = Processor(page).evaluate
        for name in chosen.recordings.split(","):
            packed = base64.b64encode(voice(name).tobytes()).decode()
            page.evaluate("(packed) => bench.give(packed)", packed)

            def sample(who: str, _: int, name: str = name) -> dict[str, float]:
                answer = spent("(who) => bench.transcribe(who)", who)
                check(who, name, answer.pop("text"))
                return answer

            # The peer takes many seconds for a sample: the first recording warms both.
            taken = alternate(names, sample, chosen.rounds or 1, 0 if results else 1)
            row = {"what": f"{name}, float", "threads": 1, **compared(taken, 1), "samples": taken}
            results.append(row)
            tell_row(cells(row))
        version = page.context.browser.version
    return {"results": results, "versions": {**info, **SHOUT, "chromium": version}}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    speed, peaks, spent = row["per_s"], row.get("peak_mb", {}), row["times_by_processor"]
    cells_of_row = [row["what"], row["threads"], *(1 / per_s for per_s in speed.values())]
    for peer, ratio in row["times"].items():
        cells_of_row += [ratio, spent.get(peer, "")]
    return [*cells_of_row, *peaks.values()]


def table(result: dict[str, Any]) -> str:
    """Seconds of a recording, and memory."""
    first = result["results"][0]
    head = ["seconds for a recording", "threads", *first["per_s"]]
    for peer in first["times"]:
        head += [f"{peer} by ours", "by processor time"]
    head += [f"peak MB, {name}" for name in first.get("peak_mb", {})]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "natively, the numbers of threads"},
        "--precisions": {"default": ",".join(PRECISIONS), "help": "natively, of the weights"},
        "--recordings": {"default": "jfk,beckett", "help": "which are heard, at 16 kHz"},
        "--rounds": {"type": int, "help": "samples of each: 3 natively, 1 in the tab"},
    }
    run("speech", __doc__, {"native": native, "tab": tab}, table, options)

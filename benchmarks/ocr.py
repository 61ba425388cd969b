"""Text from pictures beside rapidocr and easyocr, with the same weights: wrong letters and time.

    python benchmarks/ocr.py [--threads 1,2] [--models pp-ocr-v4,craft-crnn-en]

Pictures are scikit-image's page and those that tests/models/written_pages.py draws. A letter that
has to be changed, left out or put in is wrong; spaces do not count. Pictures of another size come
in turn, as they do to a user; the first pass over all of them is not timed.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import HERE, markdown, run, tell_row
from peers import EASYOCR, RAPIDOCR, pypi
from turns import measured, python_side, sides

PEERS = {"pp-ocr-v4": ("rapidocr", RAPIDOCR), "craft-crnn-en": ("easyocr", EASYOCR)}
PICTURES = ("page", "receipt", "screenshot", "photograph", "columns")


def written(folder: Path) -> dict[str, str]:
    """What each picture says; its pixels are written into a folder."""
    from PIL import Image

    sys.path.insert(0, str(HERE.parent / "tests" / "models"))
    pages: Any = import_module("written_pages")
    said = {}
    for name in PICTURES:
        if name in pages.DRAWN:
            image, said[name] = pages.DRAWN[name]()
        else:
            path, said[name] = pages.found(name)
            image = Image.open(path)
        np.save(folder / f"{name}.npy", np.asarray(image.convert("RGB")))
    return said


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads, model and picture."""
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    with TemporaryDirectory() as place:
        folder = Path(place)
        said = written(folder)
        pages: Any = import_module("written_pages")
        for threads in map(int, chosen.threads.split(",")):
            for model in chosen.models.split(","):
                peer, packages = PEERS[model]
                commands = {}
                for name, path in (("rushlight", None), (peer, pypi(packages))):
                    command, env = python_side("ocr.py", threads, path)
                    commands[name] = ([*command, name], env)
                with sides(commands) as started:
                    for side in started.values():
                        side.ask("load", model=model)
                    wrong: dict[str, dict[str, float]] = {}
                    for kind in PICTURES:
                        wrong[kind] = {}
                        for name, side in started.items():
                            text = side.ask("read", path=str(folder / f"{kind}.npy"))["text"]
                            wrong[kind][name] = pages.error_rate(said[kind], text)
                    for kind in PICTURES:
                        row = measured(
                            started,
                            lambda name, _, at=started, kind=kind: at[name].ask(  # type: ignore[misc]
                                "read", path=str(folder / f"{kind}.npy")
                            ),
                            chosen.rounds,
                            f"{model}, {kind}",
                            threads,
                        )
                        row |= {"wrong": wrong[kind], "peer": peer}
                        results.append(row)
                        tell_row(cells(row))
                    for side in started.values():
                        versions |= side.ask("about")
    return {"results": results, "versions": versions}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    wrong = [f"{100 * share:.1f}" for share in row["wrong"].values()]
    took = [1000 / per_s for per_s in row["per_s"].values()]
    values: list[object] = [row["what"], row["threads"], row["peer"], *wrong, *took]
    spent = row["times_by_processor"].values()
    return [*values, *row["times"].values(), *spent, *row["peak_mb"].values()]


def table(result: dict[str, Any]) -> str:
    """Wrong letters, milliseconds of a picture, the ratio, and memory."""
    head = [
        "picture",
        "threads",
        "peer",
        "wrong letters %",
        "peer %",
        "ms",
        "peer ms",
        "peer by rushlight",
        "by processor time",
        "peak MB",
        "peer MB",
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 5, "help": "samples of each"},
        "--models": {"default": "pp-ocr-v4", "help": "those to measure"},
    }
    run("ocr", __doc__, {"native": native}, table, options)

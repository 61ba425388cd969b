"""Commands over recordings whose results are values, such as classes, or are sound."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rushlight.cli import show
from rushlight.cli.commands import Json

if TYPE_CHECKING:
    from rushlight.models.tasks import Pipeline, Task

Flag = tuple[Any, Any]


def flags_of(task: Task) -> dict[str, Flag]:
    """The flags of a task's input, and of where its result goes."""
    from inspect import Parameter

    flags: dict[str, Flag] = {}
    if task.input.kind == "text":
        flags["text"] = (Annotated[str, typer.Argument(help=task.input.help)], Parameter.empty)
    else:
        files = typer.Argument(help="The recordings.", show_default=False)
        flags["files"] = (Annotated[list[Path], files], Parameter.empty)
    if task.command is not None and task.command.result == "sound":
        where = typer.Option("--output", "-o", help="The WAV file to write.")
        flags["output"] = (Annotated[Path, where], Parameter.empty)
    else:
        flags["as_json"] = (Json, False)
    return flags


def heard(task: Task, given: Mapping[str, Any], ready: Callable[[], Pipeline]) -> None:
    """Run a task on recordings, or a text: write its sound, or print a line per answer."""
    files: list[Path] = given.get("files") or []
    if missing := [str(f) for f in files if not f.is_file()]:
        raise FileNotFoundError(f"{', '.join(missing)}: no such file")
    sounds = task.command is not None and task.command.result == "sound"
    if sounds and len(files) > 1:
        raise typer.BadParameter(f"{len(files)} recordings are named; -o is one file")
    pipe = ready()
    together = task.input.kind == "recordings"
    inputs: list[Any] = [files] if together else [*files] if files else [given["text"]]
    for what in inputs:
        began = time.perf_counter()
        with show.bar(task.name, unit="s", least=31) as progress:
            result = pipe.run(what, {}, progress=progress)
        spent = time.perf_counter() - began
        if sounds:
            _save(given["output"], result, spent)
        elif given["as_json"]:
            print(json.dumps(result))
        else:
            for line in _lines(result):
                print(line if len(inputs) < 2 else f"{what}\t{line}")


def _save(path: Path, result: Mapping[str, Any], spent: float) -> None:
    from rushlight.models.audio.wave import save

    sound, rate = result["audio"], result["sampling_rate"]
    save(path, sound, rate)
    told = f"{sound.shape[-1] / rate:.1f} s of sound in {spent:.1f} s -> {path}"
    if "bandwidth" in result:
        told = f"{result['bandwidth']:g} kbit/s, {told}"
    print(told, file=sys.stderr)


def _lines(result: Any) -> list[str]:
    """Lines of classes with scores, or of the values that a result names."""
    if isinstance(result, list):
        return [f"{row['score']:.4f}  {row['label']}" for row in result]
    return [f"{name}: {value}" for name, value in result.items() if not isinstance(value, list)]

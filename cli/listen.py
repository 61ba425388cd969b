"""Commands over recordings: one result per file, printed or written beside each other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from rushlight.cli import show
from rushlight.core.basis.files.replacing import write_whole

if TYPE_CHECKING:
    from rushlight.models.tasks import Pipeline, Task


def listen(task: Task, given: Mapping[str, Any], ready: Callable[[], Pipeline]) -> None:
    """Run an audio task on each file. Text is shown as it is heard, the rest on stderr."""
    from rushlight.models.speech.writers import WRITERS

    form, folder, files = given["output"], given["output_dir"], given["files"]
    if form not in WRITERS:
        raise typer.BadParameter(
            f"--output {form} is not supported; supported: {', '.join(WRITERS)}"
        )
    if missing := [str(f) for f in files if not f.is_file()]:
        raise FileNotFoundError(f"{', '.join(missing)}: no such file")
    if folder is not None and len({f.stem for f in files}) < len(files):
        raise typer.BadParameter("--output-dir: two recordings have one name; name one folder each")
    pipe = ready()
    for file in files:
        shown = task.streams and folder is None and form == "txt"
        began = time.perf_counter()
        with show.bar(file.name, unit="s", least=31) as progress:
            on_piece = (lambda token: print(token.text.strip(), flush=True)) if shown else None
            result = pipe.run(file, {}, part=on_piece, progress=progress)
        spent = time.perf_counter() - began
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / f"{file.stem}.{form}"
            write_whole(target, WRITERS[form](result))
            print(f"{file} -> {target}", file=sys.stderr)
        elif not shown:
            print(WRITERS[form](result), end="")
        if length := result.get("duration"):
            print(f"{file.name}: {length:.1f} s of audio in {spent:.1f} s", file=sys.stderr)

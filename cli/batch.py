"""`rushlight batch`: a task over every row of a file or folder, in several processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rushlight.cli.commands import Model, check_device


def batch(
    source: Annotated[
        Path, typer.Argument(help="A .jsonl, .txt, .parquet or .arrow file, or a folder of files.")
    ],
    task: Annotated[str, typer.Option(help="The task, such as feature-extraction.")],
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The results: a .jsonl or .parquet file.")
    ],
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="An option of the task, NAME=VALUE in JSON; repeatable.", metavar="NAME=VALUE"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    field: Annotated[
        str | None, typer.Option(help="The key or column that is the input.", metavar="KEY")
    ] = None,
    part: Annotated[int, typer.Option(min=1, help="Rows that are kept together.")] = 64,
    most_errors: Annotated[
        int | None, typer.Option(min=0, help="Stop after more rows with errors than this.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Forget what an earlier run has done.")
    ] = False,
) -> None:
    """Run a task over every row; a run that was ended goes on where it was."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from rushlight.models.bulk import run_all

    check_device(device)
    columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.completed} rows"),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        shown = bar.add_task(task, total=None)
        summary = run_all(
            source,
            task,
            model,
            output,
            options=_options(option or []),
            device=device,
            workers=workers,
            field=field,
            part=part,
            most_errors=most_errors,
            restart=restart,
            progress=lambda rows: bar.advance(shown, rows),
        )
    beside = output.with_name(f"{output.stem}.errors.jsonl")
    told = f", {summary.failed} with errors in {beside}" if summary.failed else ""
    print(f"{summary.done} rows in {output}{told}", file=sys.stderr)


def _options(given: list[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise typer.BadParameter(f"--option {text}: it must be NAME=VALUE")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            options[name.replace("-", "_")] = value
    return options

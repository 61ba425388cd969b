"""`rushlight autotune`: measure which kernels of a webgpu device are fastest, and save that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rushlight.cli.commands import Json, check_device, fetched

if TYPE_CHECKING:
    from rushlight.core.backends.autotuning import Row


def autotune(
    device: Annotated[str, typer.Option(help="Which adapter.")] = "webgpu",
    model: Annotated[
        str | None, typer.Option(help="Measure the ops of this model; default: common ops.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only show the saved choices.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the saved choices.")] = False,
    as_json: Json = False,
) -> None:
    """Measure which kernels are fastest on an adapter, and use those from now on."""
    import rushlight as rl

    if show and clear:
        raise typer.BadParameter("--show and --clear exclude each other")
    check_device(device)
    tuner = rl.device(device).backend.tuner()
    if tuner is None:
        raise typer.BadParameter(f"tuning {device} is not supported; supported: webgpu")
    place = Path(tuner.place)
    if clear:
        print(f"{'removed' if tuner.forget() else 'there is no'} {place}")
        return
    if not show:
        _measure(device, _work(model, device) if model else None)
        print(f"kept in {place}" if place.is_file() else f"cannot write {place}", file=sys.stderr)
    rows = list(tuner.choices.rows.values())
    if as_json:
        import json

        print(json.dumps([{"class": str(r), **r._asdict()} for r in rows]))
    elif rows:
        _print(rows)
    else:
        print(f"nothing was measured on {device} ({rl.device(device).info['device']})")


def _work(model: str, device: str) -> Callable[[], object]:
    """A function that runs the samples of the model's first task."""
    import rushlight as rl

    pipe = rl.pipeline(model=fetched(model), device=device)
    return lambda: [pipe(sample, **options) for sample, options in pipe.task.samples]


def _measure(device: str, work: Callable[[], object] | None) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    import rushlight as rl

    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("computing", total=None)

        def progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        rl.autotune(device, work, progress)


def _print(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("for up to", "guess", "ms", "choice", "ms", "faster", box=None)
    for row in rows:
        before, after = (row.seconds.get(n, 0.0) for n in (row.guess, row.choice))
        chosen = (
            ()
            if row.choice == row.guess
            else (
                row.choice,
                f"{after * 1e3:.3f}",
                f"{before / after:.2f} times",
            )
        )
        table.add_row(str(row), row.guess, f"{before * 1e3:.3f}", *chosen)
    for row in rows:
        for name, why in row.refused.items():
            print(f"{row}: {name} is left out: {why.splitlines()[0]}", file=sys.stderr)
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(table)

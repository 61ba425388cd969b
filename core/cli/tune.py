"""`rushlight tune`: measure which kernels of a webgpu device are fastest, and keep the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rushlight.core.cli.commands import Json, check_device, fetched

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.tune import Row

# Some hundred tokens, and some dozen.
_TEXT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford. "


def tune(
    device: Annotated[str, typer.Option(help="Which adapter.")] = "webgpu",
    model: Annotated[
        str | None, typer.Option(help="Measure what this model computes; else a usual choice.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only show what was kept.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Forget what was kept.")] = False,
    as_json: Json = False,
) -> None:
    """Measure which kernels are fastest on an adapter, and use those from now on."""
    import rushlight as rl

    if show and clear:
        raise typer.BadParameter("--show and --clear exclude each other")
    check_device(device)
    if rl.device(device).type != "webgpu":
        raise typer.BadParameter(f"{device} has nothing to choose among; there is webgpu")
    from rushlight.core.backends.webgpu import tune as tables

    backend: Any = rl.device(device).backend
    place = tables.folder() / tables.kept_as(backend)
    if clear:
        print(f"{'removed' if tables.forget(backend) else 'there is no'} {place}")
        return
    if not show:
        _measure(device, _work(model, device) if model else None)
        print(f"kept in {place}" if place.is_file() else f"cannot write {place}", file=sys.stderr)
    rows = list(backend.recorder.choices.rows.values())
    if as_json:
        import json

        print(json.dumps([{"class": str(r), **r._asdict()} for r in rows]))
    elif rows:
        _print(rows)
    else:
        print(f"nothing was measured on {device} ({backend.port.info['device']})")


def _work(model: str, device: str) -> Callable[[], object]:
    """A prompt and some tokens, or short and long texts, of a model."""
    from rushlight import models

    loaded = models.load(fetched(model), device=device)
    if hasattr(loaded, "encode"):
        return lambda: loaded.encode([_TEXT, _TEXT * 5] * 8, batch_size=8)
    return lambda: [
        list(loaded.tokens(loaded.prompt_ids(_TEXT * n), max_new_tokens=4, temperature=0))
        for n in (1, 5)
    ]


def _measure(device: str, work: Callable[[], object] | None) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    import rushlight as rl

    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("computing", total=None)

        def progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        rl.tune(device, work, progress)


def _print(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("for up to", "guess", "ms", "choice", "ms", "faster", box=None)
    for row in rows:
        before, after = (row.seconds.get(n, 0.0) for n in (row.guess, row.choice))
        chosen = () if row.choice == row.guess else (
            row.choice, f"{after * 1e3:.3f}", f"{before / after:.2f} times",
        )  # fmt: skip
        table.add_row(str(row), row.guess, f"{before * 1e3:.3f}", *chosen)
    for row in rows:
        for name, why in row.refused.items():
            print(f"{row}: {name} is left out: {why.splitlines()[0]}", file=sys.stderr)
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(table)

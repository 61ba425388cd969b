"""`rushlight site build` and `rushlight site serve`."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

app = typer.Typer(help="Build and serve the static site of demo pages.", no_args_is_help=True)
DEFAULT_MODEL = "all-minilm-l6-v2"

Out = Annotated[Path, typer.Option(help="The folder to make.")]
Dir = Annotated[Path, typer.Option("--dir", help="The built site.")]
Models = Annotated[
    list[str] | None,
    typer.Option(
        help="Models to include, with commas between or repeated: names, folders or hub ids."
    ),
]


class _Bars:
    """Progress bars, one per downloading file."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console,
            transient=True,
        )
        self.tasks: dict[str, object] = {}

    def __call__(self, name: str, done: int, total: int | None) -> None:
        if name not in self.tasks:
            self.tasks[name] = self.progress.add_task(name, total=total)
        self.progress.update(self.tasks[name], completed=done, total=total)  # type: ignore[arg-type]


@app.command()
def build(
    models: Models = None,
    out: Out = Path("dist/site"),
    split_mb: Annotated[
        int | None, typer.Option(help="Cut weights into parts of this many megabytes.")
    ] = None,
) -> None:
    """Build the self-contained site: pages, browser runtime and models."""
    from rushlight.models.hub.names import resolve
    from rushlight.site.builder.build import build as build_site

    console, began = Console(), time.perf_counter()
    bars = _Bars(console)
    with bars.progress:
        chosen: list[tuple[str, Path]] = []
        for name in [DEFAULT_MODEL] if models is None else _names(models):
            folder = resolve(name, progress=partial(bars, name))
            chosen.append((Path(name.partition("@")[0]).name, folder))
        report = build_site(out, chosen, split_mb=split_mb, progress=bars)
    sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in report.models.items())
    console.print(
        f"Built {report.out} in {time.perf_counter() - began:.1f} s: runtime "
        f"{report.runtime_bytes / 1e6:.1f} MB, models: {sizes or 'none'}",
        soft_wrap=True,
        highlight=False,
    )
    if not report.pages:
        console.print(
            "The installed package lacks the demo pages; a checkout has them.",
            soft_wrap=True,
        )


def _names(given: list[str]) -> list[str]:
    """The names of repeated options, each a list with commas or a folder's path."""
    split = ([name] if Path(name).exists() else name.split(",") for name in given)
    return [name.strip() for names in split for name in names if name.strip()]


@app.command()
def serve(
    port: Annotated[int, typer.Option(help="The first port to try; 0 takes any.")] = 8000,
    folder: Dir = Path("dist/site"),
) -> None:
    """Serve a built site on this machine only; prints the address once it is ready."""
    from rushlight.site.builder.serve import check, make_server

    server = make_server(folder, port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        checked = check(server, folder)
        print(f"Serving {folder} ({checked / 1e6:.1f} MB checked) at {server.address}", flush=True)
        print("Press Ctrl+C to stop.", flush=True)
        thread.join()
    except KeyboardInterrupt:
        print("\nStopped.")
    finally:
        server.shutdown()
        server.server_close()

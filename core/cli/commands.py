"""`rushlight embed`, `inspect`, `fetch` and `info`.

What a command needs is imported when it runs, so that `--help` does not wait for it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rushlight.core.io.fetch import Progress
    from rushlight.core.io.table import Entry

DEFAULT_MODEL = "all-minilm-l6-v2"

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[str, typer.Option(help="A model: a name, folder, file, or hub id owner/name.")]


def embed(
    texts: Annotated[
        list[str] | None, typer.Argument(help="The texts.", show_default=False)
    ] = None,
    model: Model = DEFAULT_MODEL,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
    file: Annotated[
        Path | None, typer.Option(help="Read the texts from a file, one a line; - is stdin.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts computed at a time.")] = 32,
    as_json: Json = False,
) -> None:
    """Turn texts into vectors whose dot products say how alike the texts are."""
    if bool(texts) == (file is not None):
        raise typer.BadParameter("give texts, or a file of texts with --file")
    chosen = _lines(file) if file is not None else list(texts or ())

    from rushlight import models

    check_device(device)
    folder = fetched(model)
    began = time.perf_counter()
    loaded = models.load(folder, device=device)
    if not hasattr(loaded, "encode"):
        raise ValueError(f"{model} is no model of embeddings: it has no encode()")
    ready = time.perf_counter()
    with _bar("Embedding", unit="texts", least=256) as progress:
        vectors = loaded.encode(chosen, batch_size=batch_size, progress=progress).tolist()
    seconds = {"load": round(ready - began, 4), "encode": round(time.perf_counter() - ready, 4)}
    if as_json:
        # Nine digits give back every float32.
        rows = [[float(f"{x:.9g}") for x in vector] for vector in vectors]
        result = {"model": model, "device": device, "seconds": seconds, "embeddings": rows}
        print(json.dumps(result))
        return
    for text, vector in zip(chosen, vectors, strict=True):
        start = " ".join(f"{x:7.4f}" for x in vector[:4])
        print(f"[{start} ... {len(vector)} numbers]  {_short(text, 60)}")
    if 2 <= len(vectors) <= 12:
        print("How alike (the dot products):")
        for vector in vectors:
            dots = (sum(a * b for a, b in zip(vector, other, strict=True)) for other in vectors)
            print(" ".join(f"{dot:7.4f}" for dot in dots))
    print(
        f"{len(vectors)} texts on {device}: loaded in {seconds['load']:.2f} s, embedded in "
        f"{seconds['encode']:.2f} s",
        file=sys.stderr,
    )


def inspect(
    file: Annotated[str, typer.Argument(help="A weight file, a folder, or a model's name.")],
    as_json: Json = False,
) -> None:
    """Show what a weight file holds: tensors, dtypes, shapes, sizes and metadata."""
    from rushlight.core.io import read_tables
    from rushlight.core.io.hub import MODELS

    path = fetched(file) if file in MODELS else Path(file)
    opened = read_tables(path)
    rows = [(name, e) for name, table, _ in opened for e in table.entries.values()]
    metadata = {k: v for _, _, found in opened for k, v in found.items()}
    total = {
        "tensors": len(rows),
        "parameters": sum(_numel(e) for _, e in rows),
        "bytes": sum(e.nbytes for _, e in rows),
    }
    if as_json:
        tensors = [
            {"name": e.name, "dtype": e.dtype.name, "shape": e.shape, "bytes": e.nbytes,
             "offset": e.offset, "file": name}
            for name, e in rows
        ]  # fmt: skip
        few = {key: _few(value) for key, value in metadata.items()}
        print(json.dumps({"metadata": few, "total": total, "tensors": tensors}))
        return
    _print_table([[e.name, e.dtype.name, str(list(e.shape)), _size(e.nbytes)] for _, e in rows])
    for key, value in metadata.items():
        print(f"metadata  {key}: {_short(str(_few(value)), 200)}")
    files = f" in {len(opened)} files" if len(opened) > 1 else ""
    count = f"{total['parameters']:,} numbers"
    print(f"{total['tensors']} tensors{files}, {count}, {_size(total['bytes'])}")


def fetch(name: Annotated[str, typer.Argument(help="A model: a name or a hub id.")]) -> None:
    """Fetch a model into the cache, check it, and print its folder."""
    from rushlight.core.io.hub import MODELS, fetch_model

    if name in MODELS:
        with _bar(name) as progress:
            folder, served = fetch_model(name, progress=progress)
        print(f"{name}: served by {served}; sizes and hashes are right", file=sys.stderr)
    else:
        folder = fetched(name)
    print(folder)


def info(as_json: Json = False) -> None:
    """Show versions, devices, kernels and the cache folder."""
    import platform

    import numpy as np

    import rushlight as rl
    from rushlight.core.io.fetch import cache_dir

    cache = cache_dir()
    models = sorted(p.name for p in (cache / "models").glob("*") if p.is_dir())
    facts: dict[str, Any] = {
        "version": rl.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "numpy": np.__version__,
        "devices": [_device_facts(d) for d in rl.devices()],
        "blas": _blas(),
        "cache": str(cache),
        "models": models,
    }
    if as_json:
        print(json.dumps(facts))
        return
    for key, value in facts.items():
        if key == "devices":
            for each in value:
                print(f"{'device':9} {_device_line(each)}")
            continue
        shown = ", ".join(value) or "none" if isinstance(value, list) else value
        print(f"{key:9} {shown}")


def check_device(name: str) -> None:
    """BadParameter that lists the devices there are, where `name` cannot be used here."""
    import rushlight as rl
    from rushlight.core.errors import DeviceError

    if name == "cpu":  # without asking for adapters, which takes a second
        return
    try:
        if rl.device(name).type != "meta":
            _ = rl.device(name).info
            return
    except DeviceError as error:
        raise typer.BadParameter(str(error)) from None
    except ValueError:
        pass
    names = ", ".join(str(d) for d in rl.devices())
    raise typer.BadParameter(f"no device {name!r} here; there are: {names}")


def _device_facts(device: Any) -> dict[str, Any]:
    """What `info` says of a device; an adapter that does not open gives its error."""
    from rushlight.core.errors import DeviceError

    try:
        return {"name": str(device), **device.info}
    except DeviceError as error:
        return {"name": str(device), "error": str(error)}


# Of an adapter's limits those that bound what can be computed.
_LIMITS = ("maxBufferSize", "maxStorageBufferBindingSize", "maxComputeWorkgroupStorageSize")


def _device_line(facts: dict[str, Any]) -> str:
    """A device as a line: its adapter, driver, sizes and features."""
    if "error" in facts:
        return f"{facts['name']}: {facts['error']}"
    if "limits" not in facts:
        return f"{facts['name']}: {facts['device']}, {facts['kernels']}, threads {facts['threads']}"
    limits = ", ".join(f"{name} {_size(facts['limits'][name])}" for name in _LIMITS)
    features = ", ".join(facts["features"]) or "no optional features"
    return (
        f"{facts['name']}: {facts['device']}, {facts['backend']}, {facts['description']}\n"
        f"{'':9}   {limits}\n{'':9}   {features}"
    )


def _blas() -> str:
    """What NumPy multiplies matrices with."""
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'none')} {blas.get('version', '')}".strip()


def _lines(file: Path) -> list[str]:
    """The lines of a UTF-8 file, or of stdin. An empty line is a text like any other."""
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        lines = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: byte {error.start} is wrong") from None
    lines = [line.removesuffix("\r") for line in lines[: -1 if lines[-1] == "" else None]]
    if not lines:
        raise ValueError(f"{file} has no lines")
    return lines


def fetched(name: str) -> Path:
    """The folder of a model; with a bar while it is being fetched."""
    from rushlight.core.io.hub import resolve

    with _bar(name) as progress:
        return resolve(name, progress=progress)


@contextmanager
def _bar(title: str, unit: str = "bytes", least: int = 0) -> Iterator[Progress]:
    """A progress bar on stderr, drawn from the first report on; none for fewer than `least`."""
    bar: Any = None
    task: Any = None

    def progress(done: int, total: int | None) -> None:
        nonlocal bar, task
        if total is not None and total < least:
            return
        if bar is None:
            bar, task = _start_bar(title, unit, total)
        bar.update(task, completed=done, total=total)

    try:
        yield progress
    finally:
        if bar is not None:
            bar.stop()


def _start_bar(title: str, unit: str, total: int | None) -> tuple[Any, Any]:
    from rich import progress as parts
    from rich.console import Console

    counts = (
        (parts.DownloadColumn(), parts.TransferSpeedColumn())
        if unit == "bytes"
        else (parts.MofNCompleteColumn(),)
    )
    bar = parts.Progress(
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        *counts,
        parts.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    bar.start()
    return bar, bar.add_task(title, total=total)


def _print_table(rows: list[list[str]]) -> None:
    """Rows in columns; the last one is flush right."""
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=False)]
        print("  ".join([*cells, row[3].rjust(widths[3])]))


def _numel(entry: Entry) -> int:
    return entry.nbytes // entry.dtype.itemsize * entry.dtype.block


def _size(nbytes: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= factor:
            return f"{nbytes / factor:.1f} {unit}"
    return f"{nbytes} B"


def _few(value: Any) -> Any:
    """A metadata value as JSON has it; of a long list its beginning and how many there are."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if not hasattr(value, "__len__"):
        return value
    items = [_few(item.item() if hasattr(item, "item") else item) for item in value[:8]]
    return items if len(value) <= len(items) else [*items, f"... {len(value)} values"]


def _short(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."

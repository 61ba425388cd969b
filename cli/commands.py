"""`rushlight inspect`, `fetch`, `models` and `info`.

A command imports its modules when it runs, so that `--help` does not wait for them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rushlight.cli.quantize import total_lines, totals
from rushlight.cli.show import bar, printable, short, size

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[str, typer.Option(help="A model: a name, folder, file, or hub id owner/name.")]


def inspect(
    file: Annotated[str, typer.Argument(help="A weight file, a folder, or a model's name.")],
    sizes: Annotated[
        list[str] | None, typer.Option("--size", help="name=N: a free size of an ONNX graph.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the contents of a weight file: tensors, dtypes, shapes, sizes and metadata. Of an ONNX
    file: operators, which of them are not supported, memory, and the cost of each node.
    """
    if file.endswith(".onnx"):
        from rushlight.cli.graphs import inspect_graph

        inspect_graph(Path(file), _sizes(sizes or []), as_json)
        return
    if sizes:
        raise typer.BadParameter("--size is for .onnx files")
    from rushlight.core.io import read_tables
    from rushlight.models.hub.names import MODELS

    path = fetched(file) if file in MODELS else Path(file)
    opened = read_tables(path)
    rows = [(name, e) for name, table, _ in opened for e in table.entries.values()]
    metadata = {k: v for _, _, facts in opened for k, v in facts.items()}
    entries = [e for _, e in rows]
    if as_json:
        tensors = [
            {
                "name": e.name,
                "dtype": e.dtype.name,
                "shape": e.shape,
                "bytes": e.nbytes,
                "offset": e.offset,
                "file": name,
            }
            for name, e in rows
        ]
        few = {key: _few(value) for key, value in metadata.items()}
        print(json.dumps({"metadata": few, "total": totals(entries), "tensors": tensors}))
        return
    _print_table(
        [[printable(e.name), e.dtype.name, str(list(e.shape)), size(e.nbytes)] for _, e in rows]
    )
    for key, value in metadata.items():
        print(f"metadata  {printable(key)}: {printable(short(str(_few(value)), 200))}")
    print("\n".join(total_lines(entries, len(opened))))


def _sizes(options: list[str]) -> dict[str, int]:
    """Free sizes as name=N."""
    out = {}
    for option in options:
        name, _, number = option.partition("=")
        if not number.isdecimal():
            raise typer.BadParameter(f"--size {option} is no name=N")
        out[name] = int(number)
    return out


def fetch(name: Annotated[str, typer.Argument(help="A model: a name or a hub id.")]) -> None:
    """Fetch a model into the cache, check it, and print its folder."""
    from rushlight.models.hub.names import MODELS, fetch_model

    if name in MODELS:
        with bar(name) as progress:
            folder, served = fetch_model(name, progress=progress)
        print(f"{name}: served by {served}; sizes and hashes are right", file=sys.stderr)
    else:
        folder = fetched(name)
    print(folder)


def family_rows() -> list[dict[str, Any]]:
    """A row for each model_type: formats, tasks, reference, errors beside it, and what it is."""
    import importlib

    from rushlight.models.families import families, measured
    from rushlight.models.families.family import Family
    from rushlight.models.tasks.registry import served_by

    ggufs = set(families("gguf_types").values())
    rows = []
    for kind, path in sorted(families().items()):
        module, figures = importlib.import_module(path), measured().get(kind, {})
        family: Family = module.FAMILY
        rows.append(
            {
                "model_type": kind,
                "formats": ["hf", "gguf"] if path in ggufs else ["hf"],
                "devices": ["cpu", "webgpu"],
                "tasks": list(served_by(family)),
                "reference": figures.get("reference", ""),
                "cpu": figures.get("cpu"),
                "webgpu": figures.get("webgpu"),
                "about": str(module.__doc__).partition("\n")[0],
            }
        )
    return rows


def models(
    search: Annotated[
        str, typer.Option(help="Only rows with this word in the name, a task or the description.")
    ] = "",
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Every name that transformers, transformers.js or llama.cpp has, and what becomes "
            "of it here: its family, or why it does not load.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """List the model families: model_type in config.json, formats, what each is, the reference that
    it is compared with, and how near it comes on cpu and webgpu: the largest difference by the
    largest result. --json has tasks, too.
    """
    rows = _verdict_rows() if everything else family_rows()
    word = search.lower()
    rows = [row for row in rows if word in json.dumps([*row.values()], ensure_ascii=False).lower()]
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print(f"No row has {search!r} in it.", "" if everything else "--all has more rows.")
        return
    if everything:
        head = ["name", "of", "known by", "here"]
        cells = [[r["name"], r["of"], ", ".join(r["known_by"]), _verdict_words(r)] for r in rows]
    else:
        head = ["model_type", "formats", "reference", "cpu", "webgpu", "what it is"]
        cells = [
            [
                row["model_type"],
                ", ".join(row["formats"]),
                row["reference"],
                *("" if row[d] is None else f"{row[d]:.1e}" for d in row["devices"]),
                row["about"],
            ]
            for row in rows
        ]
    widths = [max(len(line[i]) for line in [head, *cells]) for i in range(len(head) - 1)]
    for line in [head, *cells]:
        print("  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[-1]]))
    if everything:
        print(f"{sum(row['loads'] for row in rows)} of {len(rows)} load.")


def _verdict_rows() -> list[dict[str, Any]]:
    """The rows of `models --all`."""
    from rushlight.models.families.verdicts import known, verdict

    kinds = {"model_types": "config.json", "gguf_types": "GGUF"}
    rows = []
    for row in known():
        said = verdict(row)
        loads, words = (False, "nothing is known of it here") if said is None else said
        facts = {"name": row.name, "of": kinds[row.field], "known_by": list(row.sources)}
        rows.append({**facts, "uses": sorted(row.uses), "loads": loads, "about": words})
    return rows


def _verdict_words(row: dict[str, Any]) -> str:
    return f"loads ({row['about']})" if row["loads"] else row["about"]


def info(as_json: Json = False) -> None:
    """Show versions, devices, kernels and the cache folder."""
    import platform

    import numpy as np

    import rushlight as rl
    from rushlight.core.io.hub.fetch import cache_dir

    cache = cache_dir()
    models = sorted(p.name for p in (cache / "models").glob("*") if p.is_dir())
    facts: dict[str, Any] = {
        "version": rl.version.rushlight,
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
    """Raise BadParameter that lists the available devices if `name` cannot be used here."""
    import rushlight as rl
    from rushlight.core.basis.errors import DeviceError

    if name == "cpu":  # listing adapters takes a second
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
    raise typer.BadParameter(f"device {name!r} is not available; available: {names}")


def _device_facts(device: Any) -> dict[str, Any]:
    """The facts that `info` shows of a device; for an adapter that does not open, its error."""
    from rushlight.core.basis.errors import DeviceError

    try:
        return {"name": str(device), **device.info}
    except DeviceError as error:
        return {"name": str(device), "error": str(error)}


# The adapter's limits that bound computations.
_LIMITS = ("maxBufferSize", "maxStorageBufferBindingSize", "maxComputeWorkgroupStorageSize")


def _device_line(facts: dict[str, Any]) -> str:
    """A device as a line: its adapter, driver, sizes and features."""
    if "error" in facts:
        return f"{facts['name']}: {facts['error']}"
    if "limits" not in facts:
        return f"{facts['name']}: {facts['device']}, {facts['kernels']}, threads {facts['threads']}"
    limits = ", ".join(f"{name} {size(facts['limits'][name])}" for name in _LIMITS)
    features = ", ".join(facts["features"]) or "no optional features"
    return (
        f"{facts['name']}: {facts['device']}, {facts['backend']}, {facts['description']}\n"
        f"{'':9}   {limits}\n{'':9}   {features}"
    )


def _blas() -> str:
    """The library with which NumPy multiplies matrices."""
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'none')} {blas.get('version', '')}".strip()


def fetched(name: str) -> Path:
    """The folder of a model, with a progress bar during a download."""
    from rushlight.models.hub.names import resolve

    with bar(name) as progress:
        return resolve(name, progress=progress)


def _print_table(rows: list[list[str]]) -> None:
    """Rows in columns; the last one is flush right."""
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=False)]
        print("  ".join([*cells, row[3].rjust(widths[3])]))


def _few(value: Any) -> Any:
    """A metadata value for JSON; a long list is cut off, with its length."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if not hasattr(value, "__len__"):
        return value
    items = [_few(item.item() if hasattr(item, "item") else item) for item in value[:8]]
    return items if len(value) <= len(items) else [*items, f"... {len(value)} values"]

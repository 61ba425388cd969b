"""The command `see`: a task over images, with its result as text, JSON or a picture."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rushlight.cli import show
from rushlight.cli.commands import Json, check_device, fetched

_OPTION = typer.Option(
    "--option", "-o", help="An option of the task: name=value, with the value as JSON or a text."
)


def see(
    files: Annotated[list[Path], typer.Argument(help="The images.", show_default=False)],
    model: Annotated[str, typer.Option(help="A model: a name, folder, file, or hub id.")],
    task: Annotated[str | None, typer.Option(help="The task; default: the model's first.")] = None,
    labels: Annotated[list[str] | None, typer.Option(help="A label of a zero-shot task.")] = None,
    options: Annotated[list[str] | None, _OPTION] = None,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
    output_dir: Annotated[
        Path | None, typer.Option(help="Write pictures of results into this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what images show: classes, vectors, objects, masks or depth, as the task is."""
    from rushlight import models
    from rushlight.models.tasks import Pipeline, check_served, first_task

    if missing := [str(f) for f in files if not f.is_file()]:
        raise FileNotFoundError(f"{', '.join(missing)}: no such file")
    check_device(device)
    loaded = models.load(fetched(model), device=device)
    chosen = check_served(loaded, task or first_task(loaded))
    if chosen.input.kind != "images":
        raise ValueError(f"{chosen.name} does not take images; --task names one that does")
    passed = _given(options or [])
    if labels:
        passed["candidate_labels"] = labels if len(labels) > 1 else labels[0]
    pipe = Pipeline(chosen, loaded, passed)
    began = time.perf_counter()
    with show.bar(chosen.name, unit="images", least=4) as progress:
        results = pipe.run(list(files), {}, progress=progress)
    spent = time.perf_counter() - began
    rows = results.tolist() if chosen.output == "vectors" else results
    if as_json:
        named = [{"file": str(f), "value": _plain(row)} for f, row in zip(files, rows, strict=True)]
        print(
            json.dumps(
                {"model": model, "task": chosen.name, "images": named, "seconds": round(spent, 4)}
            )
        )
        return
    for file, row in zip(files, rows, strict=True):
        if isinstance(row, dict) and {*row} & {"depth", "mask"}:
            print(f"{file} -> {_picture(file, row, output_dir)}")
            continue
        _print(str(file), row)
        if row and hasattr(row, "plot") and (output_dir is not None or "mask" in row[0]):
            print(f"  -> {_plotted(file, row, output_dir)}")
    print(f"{len(files)} images on {device} in {spent:.2f} s", file=sys.stderr)


def _given(options: list[str]) -> dict[str, Any]:
    """Options as name=value; a value that is no JSON is a text."""
    parsed = {}
    for option in options:
        name, equal, value = option.partition("=")
        if not equal:
            raise typer.BadParameter(f"--option {option} is no name=value")
        try:
            parsed[name] = json.loads(value)
        except ValueError:
            parsed[name] = value
    return parsed


def _picture(file: Path, row: dict[str, Any], folder: Path | None) -> Path:
    """Write the image with a mask as its opacity, or depths as shades of grey; the file."""
    return _plotted(file, row, folder, "cut" if "mask" in row else "depth")


def _plotted(file: Path, row: Any, folder: Path | None, ending: str = "seen") -> Path:
    """Write the image with the results drawn into it; the file."""
    target = (folder or file.parent) / f"{file.stem}-{ending}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    row.plot().save(target)
    return target


def _plain(value: Any) -> Any:
    """A result for JSON, with lists for arrays."""
    if isinstance(value, dict):
        return {name: _plain(field) for name, field in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _print(file: str, row: Any) -> None:
    """A result of one image, a line each for classes and objects."""
    if isinstance(row, list) and row and isinstance(row[0], dict):
        print(file)
        for entry in row:
            told = ("label", "score", "mask", "keypoints")
            rest = [f"{k} {_short(v)}" for k, v in entry.items() if k not in told]
            score = f"{entry['score']:6.3f}  " if "score" in entry else ""
            print(f"  {score}{entry.get('label', '')}  {'  '.join(rest)}".rstrip())
    elif isinstance(row, list) and row and isinstance(row[0], float):
        print(f"{file}  [{' '.join(f'{x:.4f}' for x in row[:4])} ... {len(row)} numbers]")
    else:
        print(f"{file}  {_short(row)}")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, dict):
        return " ".join(f"{k} {_short(v)}" for k, v in value.items())
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

"""`rushlight export`: a model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rushlight.cli.show import printable, size

Given = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model: a name, folder, file, or hub id.")
]


def export(
    model: Given,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The .onnx file to write.")],
    task: Annotated[
        str | None,
        typer.Option(
            help='What it is for, such as "feature-extraction"; "text-generation" has no cache, '
            '"text-generation-with-past" has. By default the model\'s first task.'
        ),
    ] = None,
    opset: Annotated[int, typer.Option(help="The version of the operators, 13 to 25.")] = 21,
    external_data: Annotated[
        bool,
        typer.Option(
            "--external-data", help="Write weights into OUT.data; models over 2 GB need it."
        ),
    ] = False,
    verify: Annotated[
        bool, typer.Option(help="Run the file and compare it with the model.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = (
        False
    ),
) -> None:
    """Write a model as an ONNX file, with the names that transformers.js expects."""
    import rushlight as rl
    from rushlight.cli.commands import fetched
    from rushlight.core.onnx.export import ExportError

    if out.exists() and not overwrite:
        raise FileExistsError(f"{out} exists; pass --overwrite to replace it")
    loaded = rl.models.load(fetched(model)).eval()
    try:
        rl.onnx.export(
            loaded, None, out, task=task, opset=opset, external_data=external_data, verify=verify
        )
    except ExportError as error:
        raise ValueError(str(error)) from None
    files = [out, *([Path(f"{out}.data")] if external_data else [])]
    for path in files:
        if path.exists():
            print(f"{printable(str(path))}  {size(path.stat().st_size)}")

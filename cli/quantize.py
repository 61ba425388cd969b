"""`rushlight quantize` and `dequantize`, and the totals of a weight file by type."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rushlight.cli.show import bar, printable, size

if TYPE_CHECKING:
    from pathlib import Path

    from rushlight.core.io.weights.table import Entry

Given = Annotated[
    str, typer.Argument(metavar="IN", help="A GGUF file, a model's folder, or a model's name.")
]
Out = Annotated[str, typer.Argument(metavar="OUT", help="The GGUF file to write.")]
Split = Annotated[
    str | None,
    typer.Option(help="Write several files of at most so many bytes of tensors, as in 2G or 500M."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def quantize(
    model: Given,
    out: Out,
    kind: Annotated[str, typer.Option("--type", help="The file type, as llama.cpp names it.")] = (
        "q4_k_m"
    ),
    imatrix: Annotated[str | None, typer.Option(help="An importance matrix of the model.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN=TYPE", help="A type for the tensors whose names match."),
    ] = None,
    split_max_size: Split = None,
    overwrite: Overwrite = False,
) -> None:
    """Quantize a model into a GGUF file, with the types of tensors that llama.cpp chooses."""
    from rushlight.models.gguf.quantize import quantize

    with bar(f"quantizing to {kind}") as progress:
        paths = quantize(
            model,
            out,
            kind,
            imatrix=imatrix,
            keeps=keep or (),
            overwrite=overwrite,
            split_max_size=_bytes(split_max_size),
            progress=progress,
        )
    _tell(paths)


def dequantize(
    model: Given,
    out: Out,
    kind: Annotated[str, typer.Option("--type", help="f16, bf16 or f32.")] = "f16",
    split_max_size: Split = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a model as a GGUF file of floating-point numbers."""
    from rushlight.models.gguf.quantize import dequantize

    with bar(f"writing {kind}") as progress:
        paths = dequantize(
            model,
            out,
            kind,
            overwrite=overwrite,
            split_max_size=_bytes(split_max_size),
            progress=progress,
        )
    _tell(paths)


def _bytes(said: str | None) -> int | None:
    """The bytes that "2G", "500M" or a number says."""
    if said is None:
        return None
    match = re.fullmatch(r"(\d{1,15})([KMG]?)", said.upper())
    if match is None or not int(match[1]):
        raise typer.BadParameter(f"--split-max-size {said!r} is not a size such as 2G or 500M")
    return int(match[1]) * _UNITS[match[2]]


def _tell(paths: list[Path]) -> None:
    """The totals of the files that were written on stderr, and their paths."""
    from rushlight.core.io import read_tables

    entries = [e for _, table, _ in read_tables(paths[0]) for e in table.entries.values()]
    print("\n".join(total_lines(entries, len(paths))), file=sys.stderr)
    for path in paths:
        print(printable(str(path)))


def totals(entries: Iterable[Entry]) -> dict[str, Any]:
    """What a weight file holds: its tensors, numbers and bytes, in all and by type."""
    types: dict[str, dict[str, Any]] = {}
    for entry in entries:
        row = types.setdefault(entry.dtype.name, {"tensors": 0, "parameters": 0, "bytes": 0})
        row["tensors"] += 1
        row["parameters"] += entry.nbytes // entry.dtype.itemsize * entry.dtype.block
        row["bytes"] += entry.nbytes
    parts = ("tensors", "parameters", "bytes")
    sums: dict[str, Any] = {p: sum(row[p] for row in types.values()) for p in parts}
    for row in (sums, *types.values()):
        bits = 8 * row["bytes"] / row["parameters"] if row["parameters"] else 0
        row["bits_per_weight"] = round(bits, 4)
    order = sorted(types, key=lambda name: (-types[name]["bytes"], name))
    return sums | {"types": {name: types[name] for name in order}}


def total_lines(entries: Iterable[Entry], files: int = 1) -> list[str]:
    """The totals as lines: of several types one line each, the largest first, and one in all."""
    sums = totals(entries)
    cells = [
        (
            name,
            f"{each['tensors']} tensors",
            f"{each['parameters']:,} numbers",
            size(each["bytes"]),
            f"{each['bits_per_weight']:.2f} bits each",
        )
        for name, each in sums["types"].items()
    ]
    widths = [max((len(row[i]) for row in cells), default=0) for i in range(5)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, 5))])
        for row in cells
    ]
    several = f" in {files} files" if files > 1 else ""
    total = (
        f"{sums['tensors']} tensors{several}, {sums['parameters']:,} numbers, "
        f"{size(sums['bytes'])}, {sums['bits_per_weight']:.2f} bits each"
    )
    return [*(lines if len(lines) > 1 else ()), total]

"""Output of commands: progress bars, results as text, and results as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.core.io.hub.fetch import Progress


@contextmanager
def bar(title: str, unit: str = "bytes", least: int = 0) -> Iterator[Progress]:
    """A progress bar on stderr, drawn at the first report; none for fewer than `least`."""
    drawn: Any = None
    task: Any = None

    def progress(done: int, total: int | None) -> None:
        nonlocal drawn, task
        if total is not None and total < least:
            return
        if drawn is None:
            drawn, task = _start_bar(title, unit, total)
        drawn.update(task, completed=done, total=total)

    try:
        yield progress
    finally:
        if drawn is not None:
            drawn.stop()


def _start_bar(title: str, unit: str, total: int | None) -> tuple[Any, Any]:
    from rich import progress as parts
    from rich.console import Console

    counts = (
        (parts.DownloadColumn(), parts.TransferSpeedColumn())
        if unit == "bytes"
        else (parts.MofNCompleteColumn(),)
    )
    drawn = parts.Progress(
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        *counts,
        parts.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    drawn.start()
    return drawn, drawn.add_task(title, total=total)


def show_piece(token: Any) -> None:
    """Print the text that a token completed, at once."""
    print(token.text, end="", flush=True)


def as_facts(output: str, result: Any, seconds: float) -> dict[str, Any]:
    """A task's result for JSON, with the seconds of each part."""
    if output == "text":
        return dataclasses.asdict(result)
    if output == "vectors":
        # Nine digits represent every float32 exactly.
        rows = [[float(f"{x:.9g}") for x in vector] for vector in result.tolist()]
        return {"embeddings": rows, "seconds": {"encode": seconds}}
    return {"value": result, "seconds": {"run": seconds}}


def show_value(what: Any, result: Any) -> None:
    """Print a result; numbers that compare texts with the first one stand before those texts."""
    numbers = isinstance(result, list) and all(isinstance(x, float) for x in result)
    if numbers and isinstance(what, list) and len(what) == len(result) + 1:
        for number, text in zip(result, what[1:], strict=True):
            print(f"{number:7.4f}  {short(text, 60)}")
        return
    print(result)


def show_vectors(texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
    """Print the beginning of each text's vector, and for a few texts their similarity."""
    for text, vector in zip(texts, vectors, strict=True):
        start = " ".join(f"{x:7.4f}" for x in vector[:4])
        print(f"[{start} ... {len(vector)} numbers]  {short(text, 60)}")
    if 2 <= len(vectors) <= 12:
        print("Similarity (dot products):")
        for vector in vectors:
            dots = (sum(a * b for a, b in zip(vector, other, strict=True)) for other in vectors)
            print(" ".join(f"{dot:7.4f}" for dot in dots))


def printable(text: str) -> str:
    """A text from outside as a terminal may show it: control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def short(text: str, width: int) -> str:
    """A text in one line of at most `width` characters."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."


def size(nbytes: int) -> str:
    """A number of bytes with a unit."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= factor:
            return f"{nbytes / factor:.1f} {unit}"
    return f"{nbytes} B"

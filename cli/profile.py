"""`rushlight profile`: the time of a model's kernels."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rushlight.cli.commands import Json, check_device, fetched

if TYPE_CHECKING:
    from rushlight.models.tasks import Pipeline

_PROMPT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford."


def profile(
    model: Annotated[str, typer.Argument(help="A name, a hub id, or a folder.")],
    prompt: Annotated[str, typer.Option(help="The text to continue or to embed.")] = _PROMPT,
    tokens: Annotated[int, typer.Option(help="Tokens to generate.", min=1)] = 16,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
    rows: Annotated[int, typer.Option(help="Kernels to show.", min=1)] = 20,
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace for chrome://tracing or ui.perfetto.dev.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how long each kernel of a model takes, on a run after the first."""
    import rushlight as rl

    check_device(device)
    work = _work(rl.pipeline(model=fetched(model), device=device), prompt, tokens)
    work(-1)  # compiles and captures; the text differs, so that no cache helps the timed run
    with rl.profile(device) as profiled:
        work(1)
    print(json.dumps(profiled.summary()) if as_json else profiled.table(rows))
    if trace is not None:
        profiled.save(trace)
        print(f"the trace is in {trace}", file=sys.stderr)


def _work(pipe: Pipeline, prompt: str, tokens: int) -> Callable[[int], object]:
    """The function to time; its argument reads the prompt forwards (1) or backwards (-1)."""
    if pipe.task.input.kind == "texts":
        return lambda order: pipe([prompt[::order]]).tolist()
    ids = pipe.model.prompt_ids(prompt)
    return lambda order: pipe(ids[::order], max_new_tokens=tokens)

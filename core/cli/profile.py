"""`rushlight profile`: where the time of a model goes, kernel by kernel."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rushlight.core.cli.commands import Json, check_device, fetched

_PROMPT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford."


def profile(
    model: Annotated[str, typer.Argument(help="A name, a hub id, or a folder.")],
    prompt: Annotated[str, typer.Option(help="What to go on from, or to embed.")] = _PROMPT,
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
    work = _work(rl.models.load(fetched(model), device=device), prompt, tokens)
    work(-1)  # compiles and captures; another text, of which no cache helps the next
    with rl.profile(device) as found:
        work(1)
    print(json.dumps(found.summary()) if as_json else found.table(rows))
    if trace is not None:
        found.save(trace)
        print(f"the trace is in {trace}", file=sys.stderr)


def _work(model: Any, prompt: str, tokens: int) -> Callable[[int], object]:
    """What is to be timed, for a prompt that is read forwards (1) or backwards (-1)."""
    if hasattr(model, "encode"):
        return lambda order: model.encode([prompt[::order]]).tolist()
    ids = model.prompt_ids(prompt)
    return lambda order: list(model.tokens(ids[::order], max_new_tokens=tokens))

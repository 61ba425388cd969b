"""`rushlight perplexity` and `rushlight imatrix`: a model over a text."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rushlight.cli import show
from rushlight.cli.commands import Json, check_device, fetched
from rushlight.cli.placing import Map, Memory, places

if TYPE_CHECKING:
    from rushlight.models import Model

Name = Annotated[str, typer.Argument(help="A name, a hub id, or a folder.")]
Text = Annotated[Path, typer.Argument(help="A file of UTF-8 text; - is stdin.")]
Context = Annotated[int, typer.Option(help="Tokens of a window.", min=4)]
Where = Annotated[str, typer.Option(help="Where to compute.")]
Linear = Annotated[
    str,
    typer.Option(help="Products with quantized weights: exact, or fast or int8, which round."),
]


def perplexity(
    model: Name,
    text: Text,
    context: Context = 512,
    stride: Annotated[
        int | None, typer.Option(help="Tokens between windows; by default a window.", min=1)
    ] = None,
    kl: Annotated[
        str | None, typer.Option(help="Also compare with this model, of the same vocabulary.")
    ] = None,
    cache_type: Annotated[
        str, typer.Option(help="The dtype of cached keys and values: float32, float16 or q8_0.")
    ] = "float32",
    linear: Linear = "fast",
    device: Where = "cpu",
    device_map: Map = None,
    max_memory: Memory = None,
    as_json: Json = False,
) -> None:
    """Measure how well a language model predicts a text, as llama.cpp measures it."""
    from rushlight.models.perplexity import perplexity as measure

    check_device(device)
    _check_choices(linear, cache_type)
    sample = _read(text)
    where = places(device, device_map, max_memory)
    loaded, base = _load(model, **where), None if kl is None else _load(kl, **where)
    with show.bar("perplexity", unit="windows", least=2) as progress:
        measured = measure(
            loaded,
            sample,
            context=context,
            stride=stride,
            base=base,
            linear=linear,
            cache_type=cache_type,
            progress=progress,
        )
    if as_json:
        print(json.dumps({"model": model, "device": device, **dataclasses.asdict(measured)}))
        return
    print(
        f"perplexity {measured.perplexity:.4f} +- {measured.error:.4f} "
        f"({measured.tokens} tokens of {measured.windows} windows)"
    )
    if measured.kl is not None and measured.same_top is not None:
        print(f"divergence from {kl}: {measured.kl:.6f} +- {measured.kl_error:.6f} nats")
        print(f"same likeliest token: {measured.same_top:.2%}")


def imatrix(
    model: Name,
    text: Text,
    out: Annotated[Path, typer.Argument(help="A GGUF file, or a .dat of llama.cpp's older form.")],
    context: Context = 512,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
    linear: Linear = "fast",
    device: Where = "cpu",
    as_json: Json = False,
) -> None:
    """Write the importance of a model's weights over a text, for `rushlight quantize`."""
    from rushlight.models.importance import importance

    check_device(device)
    _check_choices(linear)
    if out.exists() and not overwrite:  # said before the text is read through
        raise FileExistsError(f"{out} exists already\n  hint: pass --overwrite, or another name")
    sample = _read(text)
    loaded = _load(model, device=device)
    with show.bar("imatrix", unit="windows", least=2) as progress:
        matrix = importance(loaded, sample, context=context, linear=linear, progress=progress)
    matrix.save(out, (text.name,), overwrite=overwrite)
    facts = {"file": str(out), "tensors": len(matrix.sums), **dataclasses.asdict(matrix.quality)}
    if as_json:
        print(json.dumps(facts))
        return
    print(f"{out}: {len(matrix.sums)} tensors over {matrix.quality.windows} windows of {context}")
    print(f"perplexity {matrix.quality.perplexity:.4f}", file=sys.stderr)


def _check_choices(linear: str, cache_type: str = "float32") -> None:
    """Raise ValueError for a mode or a dtype that does not exist, before anything is loaded."""
    from rushlight.models.generation.sampling import Options

    Options(linear=linear, cache_type=cache_type)


def _read(text: Path) -> str:
    raw = sys.stdin.buffer.read() if str(text) == "-" else text.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{text} is not UTF-8 text: byte {error.start} is wrong") from None


def _load(name: str, **where: Any) -> Model:
    from rushlight import models

    return models.load(fetched(name), **where)

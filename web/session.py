"""The worker's Python side: models held by number, built from bytes that JavaScript streams in."""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.io.tokenizer import import_modules
from rushlight.models import assemble
from rushlight.web.download import Builder

_models: dict[int, Any] = {}
_numbers = count(1)


async def build(builder: Builder, device: str, dtype: str | None) -> dict[str, Any]:
    """Make the model whose files `builder` holds; returns its number and what it is."""
    # Imported now, so that building needs no blocking wait (Safari has none).
    await import_modules()
    started = time.perf_counter()
    model = assemble(builder.files, builder.tensors, device=device, dtype=dtype)
    number = next(_numbers)
    _models[number] = model
    return {
        "id": number,
        "modelType": str(getattr(model.config, "model_type", "")),
        "parameters": sum(int(t.numel()) for t in model.parameters()),
        "device": str(model.device),
        "seconds": time.perf_counter() - started,
    }


async def encode(
    number: int,
    texts: Any,
    batch_size: int,
    breathe: Callable[[], Awaitable[bool]],
    report: Callable[[int, int], None],
) -> tuple[Any, int]:
    """Embed `texts`; returns the vectors as one flat float32 array, and their length.

    Between batches `breathe` lets messages in; it says whether to stop, which raises
    asyncio.CancelledError.
    """
    if number not in _models:
        raise ValueError("encode: the model was disposed of; load it again")
    steps = _models[number].encode_iter(texts.to_py(), batch_size)
    while True:
        if await breathe():
            raise asyncio.CancelledError
        try:
            report(*next(steps))
        except StopIteration as finished:
            vectors = finished.value.numpy()
            return np.ascontiguousarray(vectors).reshape(-1), vectors.shape[1]


def dispose(number: int) -> None:
    """Forget a model; its buffers go back to the heap."""
    _models.pop(number, None)


def info() -> dict[str, Any]:
    """Versions of what runs here."""
    return {
        "version": rl.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def explain() -> dict[str, str]:
    """The last exception in words for a person: its name, its message and its hint."""
    # Pyodide sets it when an exception leaves for JavaScript.
    error = sys.last_value
    if isinstance(error, MemoryError):
        return {
            "name": "MemoryError",
            "message": "the tab has no memory left for this model",
            "hint": "Close other tabs, or choose a smaller model.",
        }
    hint = str(getattr(error, "hint", None) or "")
    message = str(error).removesuffix(f"\n  hint: {hint}") or type(error).__name__
    return {"name": type(error).__name__, "message": message, "hint": hint}


def measure(size: int = 384, seconds: float = 0.5) -> float:
    """GFLOP/s of a float32 matrix product of `size` by `size`, as `linear` does it."""
    x = rl.ones((size, size))
    rounds, took, began = 0, 0.0, time.perf_counter()
    while took < seconds:
        rl.linear(x, x)
        rounds, took = rounds + 1, time.perf_counter() - began
    return 2 * size**3 * rounds / took / 1e9

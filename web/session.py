"""The worker's Python side: models held by number, built from bytes that JavaScript streams in."""

from __future__ import annotations

import asyncio
import gc
import json
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing
from itertools import count
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.backends import device_async
from rushlight.core.errors import DeviceError, DeviceLostError, DeviceMemoryError
from rushlight.core.io.template import import_modules as import_templates
from rushlight.core.io.tokenizer import import_modules
from rushlight.models.ahead import read_ahead
from rushlight.models.loading import from_parts
from rushlight.web.download import Builder, release

# What a model is measured with.
_TEXT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford. "
# Tokens of a prompt that are read between two looks for a stop: half a second of a small model on
# the CPU.
PREFILL = {"cpu": 64, "webgpu": 64}

_models: dict[int, Any] = {}
_linear: dict[int, str] = {}
_profiles: list[rl.profile] = []  # the last one
_numbers = count(1)


async def place(device: str, budget: float | None) -> dict[str, str]:
    """Open the device that a model is to be loaded on; "auto" is webgpu where there is an adapter.

    Returns its name, the adapter's, and why "auto" means cpu, if it does. A lost device is opened
    anew. budget: bytes that the webgpu device may hold. Raises DeviceError for "webgpu" where
    there is no adapter.
    """
    if device == "cpu":
        return {"device": "cpu", "adapter": "", "why": ""}
    webgpu = rl.device("webgpu" if device == "auto" else device)
    opened: Any = webgpu._backend
    if opened is not None and opened.port.lost is not None:
        webgpu.reset()
    try:
        await device_async(webgpu)
    except DeviceError as error:
        if device != "auto":
            raise
        why = str(error).partition("\n")[0].removeprefix("webgpu: ")
        return {"device": "cpu", "adapter": "", "why": why}
    webgpu.set_memory_budget(None if budget is None else int(budget))
    return {"device": str(webgpu), "adapter": str(webgpu.info["device"]), "why": ""}


async def build(builder: Builder, dtype: str | None, linear: str) -> dict[str, Any]:
    """Make the model whose files `builder` holds; returns its number and what it is.

    linear: the mode of products with quantized weights, unless `generate` is told another.
    """
    # Imported now, so that building needs no blocking wait (Safari has none).
    await import_modules()
    await import_templates()
    started = time.perf_counter()
    model: Any = from_parts(
        builder.files, builder.tensors, builder.metadata, device=builder.device, dtype=dtype
    )
    builder.tensors.clear()  # converted or moved, they would be held twice
    await builder.device.synchronize_async()
    number = next(_numbers)
    _models[number] = model
    _linear[number] = linear
    return {
        "id": number,
        "modelType": str(getattr(model.config, "model_type", "")),
        "parameters": sum(int(t.numel()) for t in model.parameters()),
        "seconds": time.perf_counter() - started,
        # 0 for a model that does not generate.
        "contextLength": model.config.max_position_embeddings if _generates(model) else 0,
        "chatTemplate": getattr(model, "template", None) is not None,
        "kernels": _kernels() if model.device.type == "cpu" else "",
        "linear": model.linear_in_use(linear) if _generates(model) else "exact",
    }


def _kernels() -> str:
    return str(rl.device("cpu").info["kernels"]).removeprefix("C, ")


def _generates(model: Any) -> bool:
    return hasattr(model, "tokens")


def _model(number: int, call: str) -> Any:
    if number not in _models:
        raise ValueError(f"{call}: the model was disposed of; load it again")
    model = _models[number]
    if call != "encode" and not _generates(model):
        raise TypeError(f"{call}: a {model.config.model_type} model does not generate text")
    return model


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
    model = _model(number, "encode")
    steps = model.encode_iter(texts.to_py(), batch_size)
    while True:
        if await breathe():
            raise asyncio.CancelledError
        try:
            done = next(steps)
            await model.device.synchronize_async()
            report(*done)
        except StopIteration as finished:
            vectors = await finished.value.numpy_async()
            return np.ascontiguousarray(vectors).reshape(-1), vectors.shape[1]


def prompt_ids(number: int, prompt: Any, call: str) -> list[int]:
    """Token ids of a text (`generate`), or of messages in the chat template (`chat`)."""
    model = _model(number, call)
    if isinstance(prompt, str):
        return list(model.prompt_ids(prompt))
    given = prompt.to_py()
    return list(model.chat_ids(given) if call == "chat" else model.prompt_ids(given))


async def generate(
    number: int,
    prompt: Any,
    call: str,
    options: Any,
    breathe: Callable[[], Awaitable[bool]],
    report: Callable[..., None],
) -> dict[str, Any]:
    """Continue a prompt; returns counts, seconds, why it ended, and every token.

    report("prefill", done, total) counts the prompt's tokens, report("token", id, text, logprob)
    gives each token of the answer. Before each step `breathe` lets messages in; it says whether to
    stop, which raises asyncio.CancelledError.
    """
    model = _model(number, call)
    began = time.perf_counter()
    ids = prompt_ids(number, prompt, call)
    chosen = {name: value for name, value in options.to_py().items() if value is not None}
    if "logit_bias" in chosen:
        # An object's keys are text in JavaScript.
        chosen["logit_bias"] = {int(token): bias for token, bias in chosen["logit_bias"].items()}
    if isinstance(chosen.get("token_mask"), memoryview):  # bytes, as JavaScript packs no booleans
        chosen["token_mask"] = np.asarray(chosen["token_mask"]) != 0
    linear = chosen.setdefault("linear", _linear[number])
    # Refuses what is out of range before anything is read.
    steps = model.tokens_async(ids, **chosen)
    found: list[tuple[int, str, float]] = []
    prefill, stopped = 0.0, ""
    with closing(read_ahead(model, ids, PREFILL[model.device.type], linear)) as reading:
        for done in reading:
            await model.device.synchronize_async()
            report("prefill", done, len(ids))
            if await breathe():
                raise asyncio.CancelledError
    async with aclosing(steps):
        async for token in steps:
            prefill = prefill or time.perf_counter() - began
            found.append((token.id, token.text, token.logprob))
            stopped = token.stopped
            report("token", *found[-1])
            if await breathe() and not stopped:
                raise asyncio.CancelledError
    return {
        "tokens": found,
        "promptTokens": len(ids),
        "generatedTokens": len(found),
        "seconds": {"prefill": prefill, "decode": time.perf_counter() - began - prefill},
        "stopped": stopped,
        "linear": model.linear_in_use(linear),
    }


async def tune(
    number: int,
    breathe: Callable[[], Awaitable[bool]],
    report: Callable[[int, int, str], None],
) -> list[dict[str, Any]]:
    """Choose the kernels of the webgpu device by measuring what a model (0: none) computes.

    report(done, total, what). Between two measurements `breathe` lets messages in; it says whether
    to stop, which raises asyncio.CancelledError.
    """

    async def tell(*told: Any) -> None:
        report(*told)
        if await breathe():
            raise asyncio.CancelledError

    async def work() -> None:
        model = _model(number, "encode")
        if not _generates(model):
            for _ in model.encode_iter([_TEXT, _TEXT * 5] * 4, 8):
                await tell(0, 0, "")
            return
        for times in (1, 5):
            ids = model.prompt_ids(_TEXT * times)
            options = {"max_new_tokens": 4, "temperature": 0, "linear": _linear[number]}
            async with aclosing(model.tokens_async(ids, **options)) as steps:
                async for _ in steps:
                    await tell(0, 0, "")

    if number and _model(number, "encode").device.type != "webgpu":
        raise ValueError("tune: the model is on the CPU; load it on webgpu")
    rows = await rl.tune_async("webgpu", work if number else None, tell)
    return [
        {"what": str(r), "guess": r.guess, "choice": r.choice, "seconds": dict(r.seconds)}
        for r in rows
    ]


async def profile_begin(number: int) -> None:
    """Time what the model's device does until `profile_end`."""
    profile = rl.profile(_model(number, "encode").device)
    await profile.__aenter__()
    _profiles[:] = [profile]


async def profile_end() -> dict[str, Any]:
    """The figures of `rl.profile`, under JavaScript's names."""
    [profile] = _profiles
    await profile.__aexit__(None)
    found: dict[str, Any] = _camel(profile.summary())
    return found


def profile_trace() -> str:
    """The trace of the last profile, as JSON."""
    return json.dumps(_profiles[0].trace())


def _camel(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel(x) for x in value]
    if not isinstance(value, dict):
        return value
    words = {k: k.replace("_", " ").title().replace(" ", "") for k in value}
    return {words[k][0].lower() + words[k][1:]: _camel(x) for k, x in value.items()}


def dispose(number: int) -> None:
    """Forget a model; its memory goes back to the heap and the GPU."""
    device = _models.pop(number).device if number in _models else None
    gc.collect()
    if device is not None and device.type == "webgpu":
        release(device)


def info() -> dict[str, Any]:
    """Versions of what runs here."""
    return {
        "version": rl.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": _kernels(),
    }


def explain() -> dict[str, str]:
    """The last exception in words for a person: its name, its message and its hint."""
    # Pyodide sets it when an exception leaves for JavaScript.
    error = sys.last_value
    if isinstance(error, DeviceLostError):
        return {
            "name": "DeviceLostError",
            "message": "the GPU was lost, and the model with it",
            "hint": "Load the model again; if the GPU is lost again, use the CPU.",
        }
    if isinstance(error, DeviceMemoryError):
        return {
            "name": "DeviceMemoryError",
            "message": "the GPU has no memory left for this model",
            "hint": "Use the CPU, or choose a smaller model.",
        }
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

"""The Python side of the worker. It builds models from streamed bytes and keeps them by number."""

from __future__ import annotations

import asyncio
import gc
import json
import platform
import sys
import sysconfig
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import asdict, is_dataclass
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

import rushlight as rl
from rushlight.core.backends import device_async
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.errors import (
    DeviceError,
    DeviceLimitError,
    DeviceLostError,
    DeviceMemoryError,
)
from rushlight.core.io.text.template import bring_jinja_by
from rushlight.core.io.text.tokenizer import import_modules
from rushlight.models import Model
from rushlight.models.generation.chatting import divided
from rushlight.models.loading import from_builder
from rushlight.models.model import runs_in_software
from rushlight.models.tasks import Piece, Pipeline, Progress, Run, check_served, find, served
from rushlight.models.tasks import tasks as all_tasks
from rushlight.models.tasks.record import camel
from rushlight.web.loading.download import Builder

# Lets the event loop handle messages, and returns whether to stop.
Breathe = Callable[[], Awaitable[bool]]

_models: dict[int, Model] = {}
_linear: dict[int, str] = {}
_profiles: list[rl.profile] = []  # the last profile only
_numbers = count(1)


async def place(device: str, budget: float | None) -> dict[str, str]:
    """Open the device for a model; "auto" is webgpu if there is a GPU, else cpu.

    An adapter that computes on the CPU in software is slower than the C kernels: "auto" does not
    take it. Returns the device's name, the adapter's name, and the reason if "auto" chose cpu. A
    lost device is opened again. budget: bytes that the webgpu device may hold. Raises DeviceError
    for "webgpu" without an adapter.
    """
    if device == "cpu":
        return {"device": "cpu", "adapter": "", "why": ""}
    webgpu = rl.device("webgpu" if device == "auto" else device)
    opened: Any = webgpu._backend
    if opened is not None and opened.port.lost is not None:
        webgpu.reset()
    fresh = webgpu._backend is None
    try:
        await device_async(webgpu)
    except DeviceError as error:
        if device != "auto":
            raise
        why = str(error).partition("\n")[0].removeprefix("webgpu: ")
        return {"device": "cpu", "adapter": "", "why": why}
    if device == "auto" and runs_in_software(webgpu):
        why = f"the WebGPU adapter ({webgpu.info['device']}) computes in software, which is slower"
        if fresh:
            webgpu.reset()
        return {"device": "cpu", "adapter": "", "why": why}
    webgpu.set_memory_budget(None if budget is None else int(budget))
    return {"device": str(webgpu), "adapter": str(webgpu.info["device"]), "why": ""}


async def build(
    builder: Builder,
    dtype: Any,
    linear: str,
    context: int | None = None,
    prefix_cache: int | None = None,
) -> dict[str, Any]:
    """Make a model of the files in `builder`; returns its number and its properties.

    linear: the mode of products with quantized weights; an option of a task overrides it. context:
    the most tokens of a conversation, if fewer than the model's own. prefix_cache: bytes of earlier
    conversations that are kept.

    `dtype`: floating weights are converted to it, or the ONNX files are of it. Raises LoadError or
    FormatError for files that are no model.
    """
    # Imported now, so that building needs no blocking wait (Safari has none).
    await import_modules()
    started = time.perf_counter()
    model: Any = await from_builder(builder, given_of(dtype))
    builder.tensors.clear()  # otherwise converted or moved tensors would be held twice
    if context is not None and _generates(model):
        model.context_length = min(model.context_length, context)
    if prefix_cache is not None and _generates(model):
        model.prefix_cache = rl.models.PrefixCache(int(prefix_cache))
    await builder.device.synchronize_async()
    builder.device.backend.trim()  # the buffers through which blocks came
    number = next(_numbers)
    _models[number] = model
    _linear[number] = linear
    return {
        "id": number,
        "modelType": str(getattr(model.config, "model_type", "")),
        "tasks": list(served(model)),
        "parameters": _parameters(model),
        "seconds": time.perf_counter() - started,
        # 0 for a model that does not generate.
        "contextLength": model.context_length if _generates(model) else 0,
        "chatTemplate": "chat" in model.tasks and model.template is not None,
        "thinkingSwitch": _generates(model)
        and model.template is not None
        and model.template.uses("enable_thinking"),
        "toolsInTemplate": _generates(model)
        and model.template is not None
        and model.template.uses("tools"),
        "kernels": _kernels(model.device),
        "linear": model.linear_in_use(linear) if _generates(model) else "exact",
    }


def _parameters(model: Any) -> int:
    """The numbers of a model's weights, those of parts that are streamed later included."""
    if "text-to-image" in model.tasks:
        count = getattr(model.parts.source, "numel", None)  # of files that the page reads
        return int(count()) if count else 0
    return sum(int(t.numel()) for t in model.parameters())


def _kernels(device: rl.Device) -> str:
    """The instruction set of the device's C kernels; "" for a device without C kernels."""
    return str(device.info.get("kernels", "")).removeprefix("C, ")


def _generates(model: Model) -> bool:
    return "text-generation" in model.tasks


def model_of(number: int, call: str) -> Model:
    """The model of this number; ValueError if there is none (any more)."""
    if number not in _models:
        raise ValueError(f"{call}: the model was disposed; load it again")
    return _models[number]


def _pipeline(number: int, name: str) -> Pipeline:
    task = check_served(model_of(number, name), name)
    defaults = {"linear": _linear[number]}
    return Pipeline(task, _models[number], {k: v for k, v in defaults.items() if k in task.names})


async def prepare(model: Any) -> None:
    """Compile the chat template of a model that has one."""
    if model.template is not None:
        await model.template.prepare()


def bring_jinja(read: Callable[[str], Awaitable[Any]]) -> None:
    """Let chat templates use jinja2 of the runtime's folder, whose files `read` gives."""

    async def bring() -> None:
        site = Path(sysconfig.get_path("purelib"))
        wheel = (await read("jinja2.whl")).to_bytes()
        for name in ("markupsafe/__init__.py", "markupsafe/_native.py"):
            (site / name).parent.mkdir(exist_ok=True)
            (site / name).write_bytes((await read(name)).to_bytes())
        with ZipFile(BytesIO(wheel)) as archive:
            archive.extractall(site)

    bring_jinja_by(bring)


def given_of(value: Any) -> Any:
    """A JavaScript value as a Python value; strings and numbers are converted already."""
    return value.to_py() if type(value).__name__ == "JsProxy" else value


def tasks() -> list[dict[str, Any]]:
    """All supported tasks, in the form that the page receives."""
    return [task.schema() for task in all_tasks().values()]


def task(number: int, name: str) -> dict[str, Any]:
    """A task in that form; ValueError if the model (0: no model) does not support it.

    Of a model, with the options that it follows.
    """
    if not number:
        return find(name).schema()
    return check_served(model := model_of(number, name), name).schema(model)


async def run(
    number: int,
    name: str,
    given: Any,
    options: Any,
    breathe: Breathe,
    report: Callable[..., None],
) -> tuple[Any, Any]:
    """Run a task; returns a value and None, or the shape and the numbers of a tensor.

    report(stage, done, total) reports progress, report("token", id, text, logprob) a token; where
    the likeliest tokens are told, their ids and logprobs follow; report("piece", value) a part of
    the result, report("preview", value) the small pictures of a step. `breathe` runs between two
    steps. If it returns True, this raises asyncio.CancelledError.

    `number` is the model's, `name` the task's, `given` its input and `options` its options, in
    JavaScript's spelling.
    """
    pipe, chosen = _pipeline(number, name), given_of(options)
    if name in ("chat", "image-text-to-text") or (chosen or {}).get("template"):
        await prepare(pipe.model)
    steps = pipe.begin(given_of(given), chosen, watched=True, page=True)
    text = given if isinstance(given, str) else ""
    result = await _driven(pipe.model, steps, breathe, report, text)
    if isinstance(result, rl.Tensor):
        numbers = np.ascontiguousarray(await result.numpy_async(), np.float32)
        return list(numbers.shape), numbers.reshape(-1)
    if pipe.task.spans is not None:
        in_units(result, pipe.task.spans(given_of(given)))
    record = is_dataclass(result) and not isinstance(result, type)
    return _camel(asdict(result) if record else result), None


def in_units(found: Any, texts: Any) -> None:
    """Count `start` and `end` of a result in UTF-16 units, as a page does, not in code points."""
    if not isinstance(texts, str):
        for result, text in zip(found, texts, strict=True):
            in_units(result, text)
    elif texts and max(texts) > "\uffff":
        units = np.cumsum([0, *(1 + (char > "\uffff") for char in texts)])
        for result in found if isinstance(found, list) else [found]:
            result |= {name: int(units[result[name]]) for name in ("start", "end")}


def _spoken(value: Any, text: str) -> Any:
    """A piece or a result with the places of its words in UTF-16 units of a page's text."""
    if not text or max(text) <= "\uffff" or not isinstance(value, dict) or "words" not in value:
        return value
    units = np.cumsum([0, *(1 + (char > "\uffff") for char in text)])
    words = [
        {**word, **{name: int(units[word[name]]) for name in ("from", "to") if name in word}}
        for word in value["words"]
    ]
    return {**value, "words": words}


async def _driven(
    model: Model, steps: Run, breathe: Breathe, report: Callable[..., None], text: str = ""
) -> Any:
    """Run the steps of a task, and check for a stop between them; returns the result.

    text: what was asked to be spoken.
    """
    sent = None
    with closing(steps):
        while True:
            try:
                item = steps.send(sent)
            except StopIteration as finished:
                return _spoken(finished.value, text)
            sent = None
            if isinstance(item, Readback):
                sent = await item
                continue
            if isinstance(item, Progress):
                await model.device.synchronize_async()
                report(item.stage, item.done, item.total)
            elif isinstance(item, Piece):
                report("piece", _camel(_spoken(dict(item.value), text)))
            elif hasattr(item, "pictures"):
                report("preview", _camel(_preview(item)))
            else:
                likely = [number for pair in item.top for number in pair]
                report("token", item.id, item.text, item.logprob, *likely)
            if await breathe():
                raise asyncio.CancelledError


def _preview(item: Any) -> dict[str, Any]:
    """A step's small pictures: their sizes, and pixels of three bytes."""
    pictures = [
        {"width": pixels.shape[1], "height": pixels.shape[0], "image": pixels}
        for pixels in item.pictures
    ]
    return {"step": item.step, "total": item.total, "pictures": pictures}


async def token_count(number: int, prompt: Any, options: Any = None) -> int:
    """The number of tokens of a text, or of messages in the chat template.

    options: those of the task chat that shape a prompt.

    `number` is the model's, `prompt` the text or messages. Raises ValueError for a model that does
    not write.
    """
    model: Any = model_of(number, "tokenCount")
    if isinstance(prompt, str):
        if "feature-extraction" in served(model) and "text-generation" not in served(model):
            return len(model.tokenizer.encode(prompt).ids)
        check_served(model, "text-generation")
        return len(model.prompt_ids(prompt))
    check_served(model, "chat")
    await prepare(model)
    chosen = find("chat").checked(given_of(options) or {}, page=True)
    shape, _ = divided(model.template, {k: v for k, v in chosen.items() if v is not None})
    return len(model.chat_ids(given_of(prompt), **shape))


async def autotune(
    number: int,
    breathe: Callable[[], Awaitable[bool]],
    report: Callable[[int, int, str], None],
) -> list[dict[str, Any]]:
    """Choose the kernels of the webgpu device by measuring those of a model (0: no model).

    report(done, total, what) reports progress. `breathe` runs between two measurements. If it
    returns True, this raises asyncio.CancelledError.

    `number` is the model's.
    """

    async def tell(*told: Any) -> None:
        report(*told)
        if await breathe():
            raise asyncio.CancelledError

    async def work() -> None:
        model = model_of(number, "autotune")
        pipe = _pipeline(number, model.tasks[0])
        for sample, options in pipe.task.samples:
            steps = pipe.begin(sample, options)
            await _driven(model, steps, breathe, lambda *_: report(0, 0, ""))

    if number and model_of(number, "autotune").device.backend.tuner() is None:
        raise ValueError("autotune: the model is on the CPU; load it on webgpu")
    rows = await rl.autotune_async("webgpu", work if number else None, tell)
    return [
        {"what": str(r), "guess": r.guess, "choice": r.choice, "seconds": dict(r.seconds)}
        for r in rows
    ]


async def profile_begin(number: int) -> None:
    """Time the kernels of the model's device until `profile_end`."""
    profile = rl.profile(model_of(number, "profile").device)
    await profile.__aenter__()
    _profiles[:] = [profile]


async def profile_end() -> dict[str, Any]:
    """The figures of `rl.profile`, under the names of client.d.ts."""
    [profile] = _profiles
    await profile.__aexit__(None)
    summary: dict[str, Any] = _camel(profile.summary())
    return summary


def profile_trace() -> str:
    """The trace of the last profile, as JSON."""
    return json.dumps(_profiles[0].trace())


def _camel(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel(x) for x in value]
    if isinstance(value, np.ndarray):  # a picture: rows one after the other
        return np.ascontiguousarray(value).reshape(-1)
    if not isinstance(value, dict):
        return value
    # The names of a tool's arguments are the tool's.
    return {camel(k): x if k == "arguments" else _camel(x) for k, x in value.items()}


def dispose(number: int) -> None:
    """Forget a model, which frees its memory on the heap and the GPU."""
    device = _models.pop(number).device if number in _models else None
    gc.collect()
    if device is not None:
        device.backend.trim()


def info() -> dict[str, Any]:
    """The versions of Rushlight, Python and NumPy, and the kernels in use."""
    return {
        "version": rl.version.rushlight,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": _kernels(rl.device("cpu")),
    }


def explain() -> dict[str, str]:
    """The last exception in words for a person: its name, its message and its hint."""
    # Pyodide sets it when an exception passes to JavaScript.
    error = sys.last_value
    if isinstance(error, DeviceLostError):
        return {
            "name": "DeviceLostError",
            "message": "the GPU was lost, and the model with it",
            "hint": "Load the model again; if the GPU is lost again, use the CPU.",
        }
    if isinstance(error, MemoryError) and not isinstance(error, DeviceLimitError):
        gpu = isinstance(error, DeviceMemoryError)
        return {
            "name": "DeviceMemoryError" if gpu else "MemoryError",
            "message": f"the {'GPU' if gpu else 'tab'} has no memory left for this model",
            "hint": f"{'Use the CPU' if gpu else 'Close other tabs'}, or choose a smaller model.",
        }
    hint = str(getattr(error, "hint", None) or "")
    text = error.args[0] if isinstance(error, KeyError) and error.args else error  # not quoted
    message = str(text).removesuffix(f"\n  hint: {hint}") or type(error).__name__
    return {"name": type(error).__name__, "message": message, "hint": hint}


def measure(size: int = 384, seconds: float = 0.5) -> float:
    """GFLOP/s of `linear` with float32 matrices of `size` by `size`."""
    x = rl.ones((size, size))
    rounds, took, began = 0, 0.0, time.perf_counter()
    while took < seconds:
        rl.linear(x, x)
        rounds, took = rounds + 1, time.perf_counter() - began
    return 2 * size**3 * rounds / took / 1e9

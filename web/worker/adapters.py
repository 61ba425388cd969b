"""Adapters of the worker's models: from files, trained on a page's rows, and their files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rushlight as rl
from rushlight.models.adapters import LoraConfig
from rushlight.models.adapters.config import FILE
from rushlight.models.finetune import finetuning
from rushlight.web.loading.download import Builder
from rushlight.web.worker.session import Breathe, given_of, model_of, prepare


def device_of(number: int) -> str:
    """The name of a model's device."""
    return str(model_of(number, "addAdapter").device)


async def add_adapter(number: int, builder: Builder, name: str) -> None:
    """Put the adapter in `builder` on a model, and make it the active one.

    `number` is the model's, `name` the adapter's. Raises what `rl.adapters.adapter_from` raises.
    """
    model: Any = model_of(number, "addAdapter")
    files, tensors, metadata = builder.parts()
    builder.tensors = {}
    if metadata is not None:
        rl.adapters.adapter_from_gguf(model, metadata, tensors, name)
    else:
        rl.adapters.adapter_from(model, files[FILE], tensors, name)
    await builder.device.synchronize_async()


def set_adapters(number: int, names: Any) -> None:
    """Let the adapters of these names compute, and no others."""
    rl.adapters.set_adapter(model_of(number, "setAdapters"), given_of(names))


async def finetune(
    number: int, rows: Any, options: Any, breathe: Breathe, report: Callable[..., None]
) -> list[float]:
    """Train a new LoRA adapter on rows; it is the active one then. Returns the losses.

    options: "name", fields of LoraConfig, and options of `rl.finetune.finetune`, in JavaScript's
    spelling. report(step, steps, loss) after each step; if `breathe` returns True then, the adapter
    stays as it is, and this raises asyncio.CancelledError. After an error there is no adapter.

    `number` is the model's.
    """
    model: Any = model_of(number, "finetune")
    chosen = {
        re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", k): v for k, v in given_of(options).items()
    }
    name = chosen.pop("name")
    known = {setting.name for setting in fields(LoraConfig)} & chosen.keys()
    lora = {key: chosen.pop(key) for key in known}
    rank = lora.setdefault("r", 8)
    usual = {"lora_alpha": 2 * rank, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    if getattr(model, "template", None) is not None:
        await prepare(model)
    rl.manual_seed(chosen.get("seed", 0))
    rl.adapters.add_adapter(model, LoraConfig(**{**usual, **lora}), name)
    sent: Any = None
    try:
        with closing(finetuning(model, given_of(rows), watch=report, **chosen)) as steps:
            while True:
                try:
                    asked = steps.send(sent)
                except StopIteration as finished:
                    losses: list[float] = finished.value
                    return losses
                if sent is not None and await breathe():
                    raise asyncio.CancelledError
                sent = await asked.item_async()
    except Exception:
        rl.adapters.delete_adapter(model, name)
        raise


async def adapter_files(number: int, name: str) -> dict[str, bytes]:
    """The files of an adapter in PEFT's format, by name."""
    model = model_of(number, "adapterFiles")
    with TemporaryDirectory() as folder:
        paths: list[Path] = rl.adapters.save_adapter(model, folder, name)
        return {path.name: path.read_bytes() for path in paths}

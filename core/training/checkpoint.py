"""The state of a training run in one safetensors file: tensors, and the rest as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rushlight.core.backends import device as as_device
from rushlight.core.backends import instantiated
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables, save_safetensors
from rushlight.core.tensor.tensor import Tensor

KEY = "rushlight.training"
_DEPTH = 32


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state, a tree of dicts, lists, tuples, plain values and tensors.

    The file takes the place of an older one when it is complete: where the disk is full, or the
    process is killed, the older one stays.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_plain(state, tensors, 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    save_safetensors(tensors, path, {"format": "pt", KEY: text})


def read(path: Path) -> dict[str, Any]:
    """The state that `write` wrote. Raises FormatError for another file."""
    opened = open_tables(path)
    try:
        metadata = opened[0][1].metadata
    finally:
        for source, _ in opened:
            source.close()
    if KEY not in metadata:
        raise FormatError(
            f"{path} is no checkpoint of rl.Trainer",
            hint="rl.load reads the weights of other files",
        )
    tree = parse_json(metadata[KEY].encode(), path.name, depth=4 * _DEPTH)
    state = _whole(tree, load_safetensors(path), path, 0)
    if not isinstance(state, dict):
        raise FormatError(f"{path}: the state is a {type(state).__name__}, not a dict")
    return state


def _plain(value: Any, tensors: dict[str, Tensor], depth: int) -> Any:
    """The tree with a list [kind, ...] in place of what JSON does not have."""
    if depth > _DEPTH:
        raise ValueError(f"a checkpoint's state is more than {_DEPTH} levels deep")
    if isinstance(value, Tensor):
        name = f"t{len(tensors)}"
        tensors[name] = value.detach()
        return ["tensor", name]
    if isinstance(value, Mapping):
        return [
            "dict",
            [
                [_plain(k, tensors, depth + 1), _plain(v, tensors, depth + 1)]
                for k, v in value.items()
            ],
        ]
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return [kind, [_plain(v, tensors, depth + 1) for v in value]]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return ["float", value.hex()]
    raise TypeError(
        f"a checkpoint cannot hold a {type(value).__name__}; it holds tensors, "
        "numbers, texts, lists and dicts"
    )


def _whole(value: Any, tensors: Mapping[str, Tensor], path: Path, depth: int) -> Any:
    if not isinstance(value, list):
        return value
    try:
        kind, content = value
        if depth > _DEPTH:
            raise ValueError
        if kind == "tensor":
            return tensors[content]
        if kind == "float":
            return float.fromhex(content)
        if kind == "dict":
            return {
                _whole(k, tensors, path, depth + 1): _whole(v, tensors, path, depth + 1)
                for k, v in content
            }
        items = [_whole(v, tensors, path, depth + 1) for v in content]
        return {"tuple": tuple, "list": list}[kind](items)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise FormatError(f"{path}: {str(value)[:60]} is no part of a state") from None


def numbers_of(own: Any) -> dict[str, Any]:
    """Where the random numbers of the devices and of a loader's own generator are."""
    by_device = {str(d): [d.generator.key, d.generator.offset] for d in instantiated()}
    return {"devices": by_device, "loader": None if own is None else [own.key, own.offset]}


def restore(numbers: Mapping[str, Any], own: Any) -> None:
    """Let random numbers go on from where `numbers_of` was called."""
    for name, (key, offset) in numbers["devices"].items():
        generator = as_device(name).generator
        generator.key, generator.offset = key, offset
    if own is not None and numbers["loader"] is not None:
        own.key, own.offset = numbers["loader"]


def state_of(trainer: Any) -> dict[str, Any]:
    """What a checkpoint keeps of a Trainer."""
    scheduler, ema = trainer.scheduler, trainer.ema
    return {
        "version": 1,
        "step": trainer.step,
        "epoch": trainer.epoch,
        "position": trainer.position,
        "processes": trainer.processes.size,
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "ema": None if ema is None else ema.state_dict(),
        "scheduler": None if scheduler is None else scheduler.state_dict(),
        "scaler": trainer.precision.scaler.state_dict(),
        "metrics": trainer.callback_metrics,
        "numbers": numbers_of(trainer._loader),
        "drawn": trainer._drawn,
        "callbacks": [[type(c).__name__, c.state_dict()] for c in trainer.callbacks],
    }


def go_on(trainer: Any, state: Mapping[str, Any], own: Any, path: Path) -> None:
    """Let a Trainer go on from `state_of` another; own: the generator of its batches.

    Raises LoadError where names or shapes do not fit, FormatError for a state that misses something
    or has something else in its place.

    `trainer` goes on from `state`; `path` is in messages.
    """
    try:
        _check(state)
        _go_on(trainer, state, own)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, FormatError):
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise FormatError(f"{path}: the state of the training does not fit: {what:.300}") from error


def _check(state: Mapping[str, Any]) -> None:
    """Raise before anything is changed, where a part is missing or of another kind."""
    kinds = {
        "step": int,
        "epoch": int,
        "position": int,
        "model": dict,
        "optimizer": dict,
        "metrics": dict,
        "numbers": dict,
        "callbacks": list,
    }
    for name, kind in kinds.items():
        if type(state[name]) is not kind or (kind is int and state[name] < 0):
            raise TypeError(f"{name} is {brief(state[name])}")
    for device, pair in state["numbers"]["devices"].items():
        as_device(device)
        _check_numbers(pair)
    if state["numbers"]["loader"] is not None:
        _check_numbers(state["numbers"]["loader"])
    for callback in state["callbacks"]:
        if type(callback) is not list or len(callback) != 2 or type(callback[0]) is not str:
            raise TypeError(f"a callback is {brief(callback)}")


def _check_numbers(pair: Any) -> None:
    """Raise unless `pair` is the key and the offset of random numbers."""
    if type(pair) is not list or len(pair) != 2 or not all(type(n) is int for n in pair):
        raise TypeError(f"random numbers are at {brief(pair)}")
    if not all(0 <= n < 2**64 for n in pair):
        raise ValueError(f"random numbers are at {brief(pair)}")


def _go_on(trainer: Any, state: Mapping[str, Any], own: Any) -> None:
    trainer.model.load_state_dict(state["model"])
    trainer.optimizer.load_state_dict(state["optimizer"])
    for name in ("ema", "scheduler"):
        averaged = getattr(trainer, name)
        if averaged is not None and state[name] is not None:
            averaged.load_state_dict(state[name])
    if state.get("scaler"):
        trainer.precision.scaler.load_state_dict(state["scaler"])
    trainer.step, trainer.epoch = state["step"], state["epoch"]
    trainer.position = trainer.processes.position(state["position"], state.get("processes", 1))
    trainer._drawn = state["drawn"]
    trainer.callback_metrics = dict(state["metrics"])
    waiting = list(state["callbacks"])
    for callback in trainer.callbacks:
        saved = next((entry for entry in waiting if entry[0] == type(callback).__name__), None)
        if saved is not None:
            waiting.remove(saved)
            callback.load_state_dict(saved[1])
    restore(state["numbers"], own)

"""Which layer of a model lies on which device: `device_map` and `max_memory` of `load`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushlight.core import nn
from rushlight.core.backends import HOST, Device
from rushlight.core.backends import device as as_device
from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.errors import DeviceError, LoadError, nearest
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.model import runs_in_software
from rushlight.models.placing.parts import (
    KEPT,
    Part,
    Paths,
    carried_bytes,
    kept_bytes,
    nbytes_of,
    parts_of,
)

if TYPE_CHECKING:
    from rushlight.models.model import Model

log = logging.getLogger("rushlight")

# What `load` takes: "auto", a device for all, or a device for each name of a module.
DeviceMap = str | Mapping[str, Any]
# Bytes of each device that may be used, as a number or a text such as "4GiB".
MaxMemory = Mapping[Any, int | str]
# The share of a bound that is left for what layers compute.
_FREE = 10
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Placement:
    """Where the parts of a model lie.

    main: the device of its inputs, its logits, and the counts of its caches: cpu if a part is
    there, as what the host has goes to other devices without a wait. first: that of what is before
    the layers. layers: that of each layer. after: that of each module after them. carried: bytes
    that a token of an answer takes from one device to another. summary: all this in words.
    """

    paths: Paths
    main: Device
    first: Device
    layers: tuple[Device, ...]
    after: Mapping[str, Device]
    carried: int = 0
    summary: str = ""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that hold a part, in the order of the parts."""
        return tuple(dict.fromkeys((self.first, *self.layers, *self.after.values())))

    def device_of(self, name: str) -> Device:
        """The device of the tensor with this name."""
        pieces = name.split(".")
        by_path = {**dict(zip(self.paths.layers, self.layers, strict=True)), **self.after}
        prefixes = (".".join(pieces[:i]) for i in range(1, len(pieces)))
        return next((by_path[p] for p in prefixes if p in by_path), self.first)

    def __str__(self) -> str:
        return self.summary


def nbytes_of_text(value: int | str, what: str = "max_memory") -> int:
    """Bytes of a number or of a text such as "4GiB", "500 MB" or "1.5GB"; ValueError for others."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(I?)B?\s*", str(value).upper())
    if match is None or not isinstance(value, str) or (match[3] and not match[2]):
        raise ValueError(
            f"load: {what} {value!r} is not a size; give bytes, or a text such as '4GiB' or '500MB'"
        )
    return int(float(match[1]) * (_BINARY if match[3] else _UNITS)[match[2]])


def place(
    model: Model,
    tensors: Mapping[str, Tensor],
    device_map: DeviceMap,
    max_memory: MaxMemory | None,
    dtype: DType | None,
) -> Placement | Device:
    """Where the tensors of a model on the meta device go; a device where it is one for all.

    It is said in one line of the log. ValueError for a device_map or max_memory that is none of
    `load`'s; LoadError for a name that the model has not, for tensors that nothing places, and for
    a part that fits nowhere.
    """
    if isinstance(device_map, str) and device_map not in ("auto", "sequential"):
        if max_memory is not None:
            raise ValueError('load: max_memory is for device_map="auto"')
        if device_map in ("balanced", "balanced_low_0"):
            raise ValueError(
                f'load: device_map {device_map!r} is not supported; "auto" fills one device '
                "after another"
            )
        return _device(device_map)
    if not isinstance(device_map, str):
        if not isinstance(device_map, Mapping):
            raise TypeError(
                f'load: device_map is {type(device_map).__name__}; give "auto", a device, or a '
                "dict of names of modules and devices"
            )
        if max_memory is not None:
            raise ValueError('load: max_memory is for device_map="auto"; the dict places all parts')
        if set(device_map) == {""}:
            return _device(device_map[""])
    paths, parts = parts_of(model, tensors, dtype)
    if isinstance(device_map, str):
        bounds = _bounds(max_memory)
        chosen = _filled(model, parts, bounds)
    else:
        bounds = {}
        chosen = _named(model, paths, parts, tensors, device_map)
    placed = _placement(model, paths, parts, chosen, tensors, dtype)
    if len(placed.devices) == 1:
        return placed.devices[0]
    # Slower than on one device, so it is said at a level that is shown.
    log.warning("%s", placed.summary)
    return placed


def _device(name: str | int | Device) -> Device:
    if isinstance(name, int):
        return as_device("webgpu", name)
    if name == "disk":
        raise ValueError(
            'load: device_map names "disk"; weights on cpu are views of the file, which the '
            'system reads when they are used: give "cpu"'
        )
    return as_device(name)


def _bounds(max_memory: MaxMemory | None) -> dict[Device, int | None]:
    """The devices in the order in which they are filled, each with its bytes if they are known."""
    if max_memory is None:
        gpu = as_device("webgpu")
        try:
            software = runs_in_software(gpu)
        except DeviceError as error:  # no adapter: all is on cpu
            log.info('device_map="auto": %s', error)
            software = True
        left = None if software else gpu.backend.memory_left()
        return {} if software else {gpu: left, HOST: None}
    max_bytes = {
        _device(name): nbytes_of_text(n, f"max_memory of {name}") for name, n in max_memory.items()
    }
    order = sorted(max_bytes, key=lambda d: (d is HOST, d.index or 0))
    bounds: dict[Device, int | None] = {}
    for each in order:
        left = each.backend.memory_left()
        bounds[each] = max_bytes[each] if left is None else min(max_bytes[each], left)
    return bounds if HOST in bounds else {**bounds, HOST: None}


def _filled(model: Model, parts: list[Part], bounds: dict[Device, int | None]) -> dict[str, Device]:
    """A device for each part: devices are filled one after another, in the order of the parts."""
    devices = list(bounds) or [HOST]
    room = {d: None if (b := bounds.get(d)) is None else b - b // _FREE for d in devices}
    room = {d: bounds[d] if d is HOST and d in bounds else r for d, r in room.items()}
    chosen: dict[str, Device] = {}
    now = 0
    for number, part in enumerate(parts):
        need = part.nbytes + part.cache_bytes
        fitting = [d for d in devices[now:] if _fits(part, need, room[d], d)]
        if not fitting:
            usable = ", ".join(
                f"{d} {'any' if bounds.get(d) is None else bounds[d]}" for d in devices
            )
            left = ", ".join(f"{d} {'any' if r is None else max(r, 0)}" for d, r in room.items())
            raise LoadError(
                f"{model.config.model_type}: {part.name} of {part.nbytes} bytes, with "
                f"{part.cache_bytes} for its cache, fits on no device; bytes that may be used: "
                f"{usable}; bytes left: {left}",
                hint="raise max_memory, or load smaller weights (a quantized file, dtype)",
            )
        chosen[part.name] = d = fitting[0]
        if (left_over := room[d]) is not None:
            room[d] = left_over - need
        if number:  # what is before the layers may be too large for a device that layers fit
            now = devices.index(d)
    return chosen


def _fits(part: Part, need: int, room: int | None, device: Device) -> bool:
    if device is HOST:
        return room is None or need <= room
    largest = int(device.info.get("limits", {}).get("maxBufferSize", part.largest))
    return part.largest <= largest and (room is None or need <= room)


def _named(
    model: Model,
    paths: Paths,
    parts: list[Part],
    tensors: Mapping[str, Tensor],
    device_map: Mapping[str, str | int | Device],
) -> dict[str, Device]:
    """A device for each part, and for each module after the layers, by a dict of names."""
    kind = model.config.model_type
    known = {name for name, _ in model.named_modules()} | set(tensors)
    tied = {paths.head, f"{paths.head}.weight"} if paths.head else set()
    for name in device_map:
        if name not in known | tied:
            close = nearest(name, known) or list(paths.layers[:1])
            raise LoadError(
                f"{kind}: device_map has {name!r}, which is no part of the model; near it: "
                f"{', '.join(close)}",
                hint="names are those of modules, see model.named_modules()",
            )
    devices = {name: _device(d) for name, d in device_map.items()}
    missing: list[str] = []
    on: dict[str, dict[Device, str]] = {}
    after = {path: path for path in paths.after}
    by_path = {path: path for path in paths.layers} | after
    for name in tensors:
        pieces = name.split(".")
        prefixes = [".".join(pieces[:i]) for i in range(len(pieces), -1, -1)]
        key = next((p for p in prefixes if p in devices), None)
        if key is None:
            missing.append(name)
            continue
        unit = next((by_path[p] for p in reversed(prefixes) if p in by_path), parts[0].name)
        on.setdefault(unit, {}).setdefault(devices[key], name)
    if missing:
        raise LoadError(
            f"{kind}: device_map places no {missing[0]}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
            hint='add its module, or "" for all that no other name places',
        )
    for unit, by_device in on.items():
        if len(by_device) > 1:
            (a, first), (b, second) = list(by_device.items())[:2]
            raise LoadError(
                f"{kind}: device_map places {first} on {a} and {second} on {b}, but {unit} lies on "
                "one device"
            )
    return {unit: next(iter(by_device)) for unit, by_device in on.items()}


def _placement(
    model: Model,
    paths: Paths,
    parts: list[Part],
    chosen: Mapping[str, Device],
    tensors: Mapping[str, Tensor],
    dtype: DType | None,
) -> Placement:
    first = chosen.get(parts[0].name) or chosen[parts[1].name]
    layers: list[Device] = []
    for part in parts[1 : 1 + len(paths.layers)]:
        layers.append(chosen.get(part.name, layers[-1] if layers else first))
    last = chosen.get(parts[-1].name) if paths.after else None
    after = {path: chosen.get(path) or last or layers[-1] for path in paths.after}
    used = {first, *layers, *after.values()}
    # Parts beside those that are known read inputs on their own device.
    known = (*paths.before, *paths.layers, *paths.after)
    plain = paths.before and all(any(n.startswith(f"{p}.") for p in known) for n in tensors)
    main = HOST if plain and HOST in used else first
    table = next(
        (t for n, t in tensors.items() if n.startswith(f"{(paths.before or known)[0]}.")), None
    )
    states = float32
    if table is not None and table.dtype.is_floating_point:
        states = dtype or table.dtype
    bare = Placement(paths, main, first, tuple(layers), after)
    _check_shared(model, bare)
    carried = carried_bytes(model, bare, states)
    summary = _words(model, bare, tensors, parts, dtype, carried)
    return Placement(paths, main, first, tuple(layers), after, carried, summary)


def _check_shared(model: Model, placement: Placement) -> None:
    """LoadError for a layer that reads with a weight of a part on another device."""
    names = {id(p): name for name, p in model.named_parameters()}
    for path, device in zip(placement.paths.layers, placement.layers, strict=True):
        for p in _reached(model.get_submodule(path), set()):
            name = names.get(id(p), path)
            if (other := placement.device_of(name)) is not device and name != path:
                raise LoadError(
                    f"{model.config.model_type}: {path} on {device} computes with {name} on "
                    f"{other}; place both on one device, or give device"
                )


def _reached(value: Any, seen: set[int]) -> Iterator[Tensor]:
    """The parameters that a module holds, also those that are not below its path."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _reached(each, seen)
    elif isinstance(value, (nn.Module, dict)):
        for each in (value if isinstance(value, dict) else vars(value)).values():
            yield from _reached(each, seen)


def _words(
    model: Model,
    placement: Placement,
    tensors: Mapping[str, Tensor],
    parts: list[Part],
    dtype: DType | None,
    carried: int,
) -> str:
    """The placement in words, with figures."""
    weights = dict.fromkeys(placement.devices, 0)
    for name, t in tensors.items():
        weights[placement.device_of(name)] += nbytes_of(t, dtype)
    cache_bytes, tokens = kept_bytes(model, len(placement.layers)), KEPT
    tokens = min(tokens, getattr(model, "context_length", tokens))
    lines = []
    for device in placement.devices:
        what = ["the embedding"] if placement.first is device else []
        what += _runs([i for i, d in enumerate(placement.layers) if d is device])
        what += [path.rpartition(".")[2] for path, d in placement.after.items() if d is device]
        cache = sum(n for n, d in zip(cache_bytes, placement.layers, strict=True) if d is device)
        line = f"{device} has {', '.join(what)}: {size(weights[device])} of weights"
        lines.append(line + (f", {size(cache)} of cache for {tokens} tokens" if cache else ""))
    return (
        f"{model.config.model_type} is placed on {len(placement.devices)} devices. "
        + ". ".join(lines)
        + f". Each token carries about {size(carried)} between them."
    )


def _runs(numbers: list[int]) -> list[str]:
    """Numbers of layers as runs: "layers 0 to 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [f"layer {a}" if a == b else f"layers {a} to {b}" for a, b in runs]


def size(nbytes: int) -> str:
    """Bytes in words: 512 B, 8.2 kB, 1.5 GB."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} B"

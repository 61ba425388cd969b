"""Carries what a part of a model reads to the part's device."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator, MutableMapping
from dataclasses import fields, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.backends import Device
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.encoder import EncoderContext
from rushlight.models.placing.plan import Placement

# What layers share; each device has its own, made once.
_CONTEXTS = (AttentionContext, EncoderContext)
# Fields of these that stay what they are: the cache knows its devices, `kept` is filled.
_STAY = ("cache", "kept")


class _Shared(MutableMapping[Hashable, Any]):
    """What layers leave for later ones, as a device reads it: it moves once to where it is read."""

    def __init__(self, base: MutableMapping[Hashable, Any], device: Device) -> None:
        self.base, self.device = base, device

    def __getitem__(self, key: Hashable) -> Any:
        value = self.base[key]
        if isinstance(value, Tensor) and value.device is not self.device:
            value = self.base[key] = value.to(device=self.device)
        return value

    def __setitem__(self, key: Hashable, value: Any) -> None:
        self.base[key] = value

    def __delitem__(self, key: Hashable) -> None:
        del self.base[key]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.base)

    def __len__(self) -> int:
        return len(self.base)


class Carrier:
    """Moves arguments of modules; contexts that layers share are moved once for each device."""

    def __init__(self) -> None:
        self._moved: dict[int, tuple[Any, dict[Device, Any]]] = {}

    def carried(self, value: Any, device: Device, memo: dict[int, Tensor] | None = None) -> Any:
        """`value` with all tensors in it on `device`."""
        if isinstance(value, Tensor):
            if value.device is device:
                return value
            if memo is None:
                return value.to(device=device)
            moved = memo.get(id(value))
            if moved is None:
                moved = memo[id(value)] = value.to(device=device)
            return moved
        if isinstance(value, _CONTEXTS):
            return self._context(value, device)
        if type(value) in (tuple, list):
            return type(value)(self.carried(x, device, memo) for x in value)
        if type(value) is dict:
            return {k: self.carried(x, device, memo) for k, x in value.items()}
        return value

    def _context(self, context: Any, device: Device) -> Any:
        key = id(context)
        if key not in self._moved:
            gone = weakref.ref(context, lambda _: self._moved.pop(key, None))
            self._moved[key] = gone, {}
        by_device = self._moved[key][1]
        if device not in by_device:
            memo: dict[int, Tensor] = {}
            new = {}
            for field in fields(context):
                value = getattr(context, field.name)
                if field.name == "shared":
                    base = value.base if isinstance(value, _Shared) else value
                    new[field.name] = _Shared(base, device)
                elif field.name not in _STAY:
                    new[field.name] = self.carried(value, device, memo)
            by_device[device] = replace(context, **new)
        return by_device[device]


def hook_parts(model: nn.Module, placement: Placement) -> None:
    """Let each part of a model get what it reads on its own device."""
    carrier, paths = Carrier(), placement.paths
    placed = dict.fromkeys(paths.before, placement.first)
    placed |= dict(zip(paths.layers, placement.layers, strict=True)) | dict(placement.after)
    for path, device in placed.items():

        def carry(
            module: nn.Module, args: Any, kwargs: Any, device: Device = device
        ) -> tuple[Any, Any]:
            return carrier.carried(args, device), carrier.carried(kwargs, device)

        model.get_submodule(path).register_forward_pre_hook(carry, with_kwargs=True)

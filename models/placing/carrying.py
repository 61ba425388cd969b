"""Carries what a part of a model reads to the part's device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, MutableMapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from rushlight.core import nn
from rushlight.core.backends import Device
from rushlight.core.jit import capture
from rushlight.core.jit.function import jit
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.session import CHUNK
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.encoder import EncoderContext
from rushlight.models.layers.positions.rotary import RotarySpec
from rushlight.models.placing.plan import Placement

if TYPE_CHECKING:
    from rushlight.models.model import Model

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


class Runs:
    """Runs the layers of a decoder; neighbours on one device are one captured function of a cache.

    What goes from device to device is carried outside of these. Layers that leave something for
    later ones are run one by one.
    """

    def __init__(self, placement: Placement) -> None:
        self.runs: list[tuple[Device, int, int]] = []
        for i, device in enumerate(placement.layers):
            if self.runs and self.runs[-1][0] is device:
                self.runs[-1] = device, self.runs[-1][1], i + 1
            else:
                self.runs.append((device, i, i + 1))
        self._carrier = Carrier()
        self._apart: bool | None = None  # whether no layer leaves anything; not known at first

    def through(self, layers: Any, x: Tensor, context: AttentionContext) -> Tensor | None:
        """The states after all layers; None where these must be run one by one."""
        cache, length = context.cache, x.shape[1]
        plain = context.pictured is None and context.kept is None and not context.shared
        # Widths that recur are captured.
        usual = plain and isinstance(cache, Cache) and cache.static and length in (1, CHUNK)
        if cache is None or not usual or capture.capturing():
            return None
        if self._apart is None:
            for layer in layers:
                x = layer(x, context)
            self._apart = not context.shared
            return x
        if not self._apart:
            return None
        for number, (device, first, stop) in enumerate(self.runs):
            here: AttentionContext = self._carrier.carried(context, device)
            if number not in cache.layer_runs:
                kinds = tuple(here.angles)
                cache.layer_runs[number] = jit(
                    _run(weakref.ref(cache), kinds, list(layers)[first:stop])
                )
            x = cache.layer_runs[number](
                x.to(device=device),
                [list(pair) for pair in here.angles.values()],
                list(here.offsets),
                here.lengths,
                here.positions,
            )
        return x


def _run(
    of: weakref.ref[Cache], kinds: tuple[RotarySpec, ...], layers: list[nn.Module]
) -> Callable[..., Tensor]:
    """A function of neighbouring layers with their cache, as `jit` captures it."""

    def run(
        x: Tensor,
        angles: list[list[Tensor]],
        offsets: list[Tensor],
        lengths: Tensor | None,
        positions: Tensor | None,
    ) -> Tensor:
        pairs: dict[RotarySpec, tuple[Tensor, Tensor]] = {
            kind: (cos, sin) for kind, (cos, sin) in zip(kinds, angles, strict=True)
        }
        context = AttentionContext(pairs, None, lengths, of(), offsets, positions)
        for layer in layers:
            x = layer(x, context)
        return x

    return run


def hook_parts(model: Model, placement: Placement) -> None:
    """Let each part of a model get what it reads on its own device."""
    model.placement, model.layer_runs = placement, Runs(placement)
    carrier, paths = Carrier(), placement.paths
    placed = dict.fromkeys(paths.before, placement.first)
    placed |= dict(zip(paths.layers, placement.layers, strict=True)) | dict(placement.after)
    for path, device in placed.items():

        def carry(
            module: nn.Module, args: Any, kwargs: Any, device: Device = device
        ) -> tuple[Any, Any]:
            return carrier.carried(args, device), carrier.carried(kwargs, device)

        model.get_submodule(path).register_forward_pre_hook(carry, with_kwargs=True)

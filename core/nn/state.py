"""The weights of a module: loading a state dict into them, and quantizing them.

Errors name what does not fit; those of loading, the nearest names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight.core import ops
from rushlight.core.backends import HOST, Device
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.encoding import check_encodable
from rushlight.core.basis.errors import LoadError, nearest
from rushlight.core.tensor import autograd
from rushlight.core.tensor.quantizing import quantized
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.core.nn.module import Module

_SHOWN = 8  # lines of each kind in an error
# Whether, or to what, a layer is quantized, by its name and itself.
Filter = Callable[[str, "Module"], Any]


class IncompatibleKeys(NamedTuple):
    """Names that are missing from the state dict, and names that the module does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"


def load_into(
    owner: str,
    slots: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    strict: bool,
    assign: bool,
) -> IncompatibleKeys:
    """Write the tensors of `state` into those of `slots`; see Module.load_state_dict.

    `owner` is in messages; `strict`: names must be the same; `assign`: the tensors themselves are
    taken. Raises LoadError for names, shapes or dtypes that do not fit.
    """
    loaded = {id(slots[name]) for name in slots if name in state}
    missing = [name for name, slot in slots.items() if id(slot) not in loaded]
    unexpected = [name for name in state if name not in slots]
    wrong = [w for name in slots if name in state for w in _misfit(name, slots[name], state[name])]
    if wrong or (strict and (missing or unexpected)):
        lost = [*_first(missing, lambda n: _lost(n, slots[n], state, unexpected))] if strict else []
        unused = (
            [*_first(unexpected, lambda n: _unused(n, state[n], slots, missing))] if strict else []
        )
        problems = [*lost, *unused, *_first(wrong, str)]
        head = "load: " if len(problems) == 1 else f"load: the tensors do not fit {owner}:\n  "
        raise LoadError(head + "\n  ".join(problems))
    with autograd.no_grad():
        for name, slot in slots.items():
            if name in state:
                _put(slot, state[name].detach(), assign)
    return IncompatibleKeys(missing, unexpected)


def _put(slot: Tensor, value: Tensor, assign: bool) -> None:
    if slot.device.type != "meta" and value.dtype.kind != "q" and not assign:
        slot.copy_(value)
        return
    slot.set_(value if assign else value.clone())
    if not value.dtype.is_floating_point:
        slot.requires_grad = False


def _misfit(name: str, slot: Tensor, value: Tensor) -> list[str]:
    if not isinstance(value, Tensor):
        raise TypeError(f'load: "{name}" is a {type(value).__name__}, not a Tensor')
    if value.shape != slot.shape:
        return [f'"{name}" is {value.shape}; the module takes {slot.shape}']
    # Integers do not load as floats, nor floats as integers; quantized blocks load as floats.
    if (value.dtype.kind in "fq") != (slot.dtype.kind in "fq"):
        return [f'"{name}" is {value.dtype.name}; the module takes {slot.dtype.name}']
    return []


def _first(names: list[str], line: Callable[[str], str]) -> Iterator[str]:
    """The lines of the first names. Only these are made, as each looks through every name."""
    yield from map(line, names[:_SHOWN])
    if len(names) > _SHOWN:
        yield f"... and {len(names) - _SHOWN} more like these"


def _lost(name: str, slot: Tensor, state: Mapping[str, Tensor], spare: list[str]) -> str:
    near = _nearest(name, spare) or _nearest(name, state)
    if not near:
        return f'no tensor "{name}" {slot.shape}, and none with a similar name'
    shown = ", ".join(f'"{n}" {state[n].shape}' for n in near)
    return f'no tensor "{name}" {slot.shape}; nearest in the file: {shown}{_prefix(name, near[0])}'


def _unused(name: str, value: Tensor, slots: Mapping[str, Tensor], spare: list[str]) -> str:
    near = _nearest(name, spare) or _nearest(name, slots)
    shown = ", ".join(f'"{n}" {slots[n].shape}' for n in near)
    tail = f"; nearest in the module: {shown}" if near else ""
    return f'unused tensor "{name}" {value.shape}{tail}'


def _nearest(name: str, names: Iterable[str]) -> list[str]:
    """Similar names; those that differ only by a prefix come first."""
    names = list(names)
    same = [n for n in names if n.endswith(f".{name}") or name.endswith(f".{n}")]
    return same[:1] or nearest(name, names, 2)


def _prefix(name: str, other: str) -> str:
    if name.endswith(f".{other}"):
        return f'. Was the prefix "{name[: -len(other)]}" dropped?'
    if other.endswith(f".{name}"):
        return f'. Was the prefix "{other[: -len(name)]}" added?'
    return ""


def quantize_layers(
    root: Module, dtype: DType, filter: Filter | None, importance: Mapping[str, Any] | None
) -> None:
    """Quantize weights of layers of `root`; nothing is changed if one of them cannot be.

    `dtype` is the blocks', `filter` chooses layers, `importance` weighs columns by the weight's
    name. Raises ValueError or TypeError for one that cannot be.
    """
    check_encodable(dtype)
    layers = {path: layer for path, layer in root.named_modules() if layer._blocks}
    weights_by_name = {} if importance is None else dict(importance)
    unknown = [
        name for name in weights_by_name if name not in {_weight_name(path) for path in layers}
    ]
    if unknown:
        raise ValueError(f"quantize_: importance for {unknown[0]!r}, which is no weight of a layer")
    tables = {id(_weight(layer)) for layer in layers.values() if layer._blocks == "table"}
    plan: dict[int, tuple[str, Tensor, DType]] = {}
    for path, layer in layers.items():
        weight = _weight(layer)
        if filter is None:
            free = weight.dtype.kind == "f" and id(weight) not in tables
            wanted = dtype if free and weight.shape[-1] % dtype.block == 0 else None
        else:
            said = filter(path, layer)
            wanted = dtype if said is True else as_dtype(said) if said else None
        if wanted is not None and wanted is not weight.dtype:
            _check_quantizable(_weight_name(path), weight, wanted)
            plan[id(weight)] = _weight_name(path), weight, wanted
    matrices = [item for item in layers.items() if item[1]._blocks == "matrix"]
    if filter is None and not plan and matrices:
        path, layer = matrices[0]
        weight, first = _weight(layer), _weight_name(path)
        raise ValueError(
            f"quantize_: no layer has floating rows that are a multiple of {dtype.block}, the "
            f"block of {dtype.name}; {first!r} is {weight.shape} of {weight.dtype.name}"
        )
    for name, weight, wanted in plan.values():
        weights = weights_by_name.get(name)
        try:
            blocks = quantized(weight, wanted, None if weights is None else _array(weights))
        except ValueError as error:
            raise ValueError(f"quantize_: {name!r}: {error}") from None
        weight.set_(blocks)
        weight.requires_grad, weight.grad = False, None


def _weight_name(path: str) -> str:
    return f"{path}.weight" if path else "weight"


def _weight(layer: Module) -> Tensor:
    weight: Tensor = vars(layer)["weight"]
    return weight


def _array(weights: Any) -> Any:
    return weights.detach().cpu().numpy() if isinstance(weights, Tensor) else np.asarray(weights)


def _check_quantizable(name: str, weight: Tensor, dtype: DType) -> None:
    """Raise if a weight cannot be quantized."""
    check_encodable(dtype)
    if weight.device.type == "meta":
        raise ValueError(f"quantize_: {name!r} has no memory; load weights, or init_() the model")
    if weight.device is not HOST:
        raise TypeError(
            f"quantize_: {name!r} is on {weight.device}, and quantizing runs on cpu; use "
            f"model.to('cpu').quantize_(...).to('{weight.device}')"
        )
    if weight.dtype.kind != "f":
        raise TypeError(
            f"quantize_: {name!r} is {weight.dtype.name} already; quantize the original weights, "
            "or leave the layer out with filter="
        )
    if weight.shape[-1] % dtype.block:
        raise ValueError(
            f"quantize_: {name!r} is {weight.shape}, and its rows are not a whole number of "
            f"{dtype.name} blocks of {dtype.block}; leave the layer out with filter=, or give a "
            "type of smaller blocks, such as q8_0"
        )


def fill_bare(root: Module, target: Device | None) -> None:
    """Give what has no memory in a module default values; all of it is on `target` in the end."""
    filled = False
    with autograd.no_grad():
        for path, module in root.named_modules():
            bare, with_values = [], []
            for name, tensor in module._own_parameters() + module._own_buffers():
                if tensor.device.type == "meta":
                    bare.append(f"{path}.{name}" if path else name)
                    empty = ops.empty(tensor.shape, dtype=tensor.dtype, device=target or HOST)
                    tensor.set_(empty)
                elif target is not None and tensor.device is not target:
                    tensor.set_(tensor.detach().to(device=target))
                    with_values.append(tensor)
                else:
                    with_values.append(tensor)
            if bare and not hasattr(module, "reset_parameters"):
                raise RuntimeError(
                    f"init_: {bare[0]} has no values, and {type(module).__name__} no method "
                    "reset_parameters to set them; define one, or make the parameter from a "
                    "tensor with values"
                )
            if bare:
                values_before = [tensor.detach().clone() for tensor in with_values]
                module.reset_parameters()
                for tensor, values in zip(with_values, values_before, strict=True):
                    tensor.copy_(values)
                filled = True
        for module in root.modules() if filled else ():
            if hasattr(module, "_settle"):  # what a Transformer sets in its layers
                module._settle()

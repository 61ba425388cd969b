"""Loading a state dict into a module, with errors that name misfits and the nearest names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from rushlight.core.basis.errors import LoadError, nearest
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

_SHOWN = 8  # lines of each kind in an error


class IncompatibleKeys(NamedTuple):
    """Names that are missing from the state dict, and names that the module does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_into(
    owner: str,
    slots: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    strict: bool,
    assign: bool,
) -> IncompatibleKeys:
    """Write the tensors of `state` into those of `slots`; see Module.load_state_dict."""
    given = {id(slots[name]) for name in slots if name in state}
    missing = [name for name, slot in slots.items() if id(slot) not in given]
    unexpected = [name for name in state if name not in slots]
    wrong = [w for name in slots if name in state for w in _misfit(name, slots[name], state[name])]
    if wrong or (strict and (missing or unexpected)):
        lost = [*_first(missing, lambda n: _lost(n, slots[n], state, unexpected))] if strict else []
        unused = (
            [*_first(unexpected, lambda n: _unused(n, state[n], slots, missing))] if strict else []
        )
        found = [*lost, *unused, *_first(wrong, str)]
        head = "load: " if len(found) == 1 else f"load: the tensors do not fit {owner}:\n  "
        raise LoadError(head + "\n  ".join(found))
    with autograd.no_grad():
        for name, slot in slots.items():
            if name in state:
                _put(slot, state[name].detach(), assign)
    return IncompatibleKeys(missing, unexpected)


def _put(slot: Tensor, value: Tensor, assign: bool) -> None:
    if slot.device.type != "meta" and not assign:
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

"""The arguments of a call: the inputs of a graph by name, in their declared types and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import brief, nearest
from rushlight.core.onnx.element_types import ElementType
from rushlight.core.onnx.interpreter import carried
from rushlight.core.onnx.proto import ValueInfo
from rushlight.core.ops import empty
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]


class Inputs:
    """The inputs of a graph: those that a call must give, and those with an initializer.

    name: the file's, for messages.
    """

    def __init__(self, name: str, required: list[ValueInfo], optional: list[ValueInfo]) -> None:
        self.name, self.required, self.optional = name, required, optional
        self.known = {info.name: info for info in (*required, *optional)}

    def bound(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], device: Any
    ) -> dict[str, Any]:
        """Each input of the graph by name, on a device and in its declared dtype.

        TypeError for inputs that are missing, unknown or of another kind, ValueError for sizes and
        numbers that the file does not take.
        """
        if len(args) > len(self.required):
            raise TypeError(f"{self.name} takes {len(self.required)} inputs; {len(args)} are given")
        named = {info.name: value for info, value in zip(self.required, args, strict=False)}
        for name, value in kwargs.items():
            if name not in self.known:
                near = ", ".join(nearest(name, self.known)) or ", ".join(self.known)
                raise TypeError(f"{self.name} has no input {name!r}; near: {near}")
            if name in named:
                raise TypeError(f"{self.name}: the input {name!r} is given twice")
            named[name] = value
        sizes: dict[str, tuple[int, str]] = {}
        bound: dict[str, Any] = {}
        for name, info in self.known.items():
            optional = info.type is not None and info.type.form == "optional"
            if name not in named:
                if info in self.optional:
                    continue
                if not optional:
                    raise TypeError(f"{self.name}: the input {name!r} ({info.type}) is missing")
            bound[name] = _input(info, named.get(name), sizes, device)
        return bound


def _input(info: ValueInfo, value: Any, sizes: dict[str, tuple[int, str]], device: Any) -> Any:
    kind = info.type
    while kind is not None and kind.form == "optional":
        if value is None:
            return None
        kind = kind.inner
    if kind is not None and kind.form == "sequence":
        if not isinstance(value, list | tuple):
            raise TypeError(f"input {info.name!r} is a {type(value).__name__}; it must be a list")
        return [_input(ValueInfo(info.name, kind.inner), v, {}, device) for v in value]
    if kind is not None and kind.form == "map":
        if not isinstance(value, dict):
            raise TypeError(f"input {info.name!r} is a {type(value).__name__}; it must be a dict")
        return value
    made = as_input(info.name, kind.kind if kind else None, value, device)
    if kind is not None and kind.shape is not None:
        _check_sizes(info.name, kind.shape, tuple(made.shape), sizes)
    return made


def kind_of(info: ValueInfo) -> ElementType | None:
    """The element type of an input, of its items where it is a sequence; None for a map."""
    kind = info.type
    while kind is not None and kind.form in ("optional", "sequence"):
        kind = kind.inner
    return kind.kind if kind is not None and kind.form != "map" else None


def elements(value: Tensor, known: Array | None = None) -> Array:
    """The elements of an input; `known` where they were read before."""
    if known is not None and known.shape == tuple(value.shape):
        return known.astype(np.dtype(value.dtype.name))
    return value.detach().numpy()


def signature(name: str, value: Any) -> Any:
    """What of an input a plan depends on."""
    if isinstance(value, Tensor):
        return name, value.dtype.name, tuple(value.shape)
    if isinstance(value, np.ndarray):
        data = tuple(value.reshape(-1)) if value.dtype.kind in "OUS" else value.tobytes()
        return name, str(value.dtype), value.shape, data
    if isinstance(value, list):
        return name, tuple(signature("", v) for v in value)
    if isinstance(value, dict):
        return name, tuple(value.items())
    return name, value


def described(value: Any) -> Any:
    """An input as the planner takes it: tensors without memory."""
    if isinstance(value, Tensor):
        return empty(value.shape, dtype=value.dtype, device="meta")
    if isinstance(value, list):
        return [described(v) for v in value]
    return value


def as_input(name: str, kind: ElementType | None, value: Any, device: Any) -> Any:
    """An input as the graph carries it: a tensor on `device`, or an array of strings.

    TypeError for values of another kind, ValueError for those that the declared type cannot hold.
    """
    if kind is not None and kind.name == "string":
        texts = np.asarray(value, dtype=np.object_)
        for text in texts.reshape(-1)[:1000]:
            if not isinstance(text, str | bytes):
                raise TypeError(f"input {name!r} has {brief(text)}; it takes strings")
        return texts
    if isinstance(value, Tensor):
        made = value
    else:
        array = np.asarray(value)
        if array.dtype.type.__module__ == "ml_dtypes" and kind is not None and kind.carried:
            array = array.astype(kind.carried.numpy)
        if array.dtype.kind not in "biufc":
            raise TypeError(
                f"input {name!r} is a {type(value).__name__} of {array.dtype}; it takes a tensor "
                f"or numbers{f' of type {kind.name}' if kind else ''}"
            )
        made = (
            tensor(value)
            if isinstance(value, list | float | int)
            else from_numpy(np.asarray(array, order="C"))
        )
    if kind is None or kind.carried is None:
        return made.to(device=device)
    if made.dtype not in (kind.declared, kind.carried):
        made = _converted(name, kind, made)
    return carried(made.to(device=device), kind)


def _converted(name: str, kind: ElementType, value: Tensor) -> Tensor:
    """Ordinary numbers in a declared type. Whole ones may become any type that holds them."""
    wanted = kind.carried
    assert wanted is not None
    from_float, to_float = value.dtype.kind == "f", wanted.kind == "f"
    if value.dtype.kind == "c" or (from_float and not to_float) or wanted.kind == "c":
        raise TypeError(f"input {name!r} is {value.dtype.name}; it must be {kind.name}")
    if wanted.kind in "iu" and value.device.type != "meta" and value.numel() and not from_float:
        info = np.iinfo(kind.stored) if kind.bits >= 8 else None
        low = int(info.min) if info else (-(1 << kind.bits - 1) if wanted.kind == "i" else 0)
        high = int(info.max) if info else (1 << kind.bits - (wanted.kind == "i")) - 1
        least, most = int(value.min().item()), int(value.max().item())
        if least < low or most > high:
            raise ValueError(
                f"input {name!r} has the value {least if least < low else most}; {kind.name} "
                f"holds {low} to {high}"
            )
    return value.to(wanted)


def _check_sizes(
    name: str,
    declared: tuple[int | str | None, ...],
    shape: tuple[int, ...],
    sizes: dict[str, tuple[int, str]],
) -> None:
    """ValueError for a rank or size that is not the declared one, or differs between inputs."""
    told = ", ".join("?" if n is None else str(n) for n in declared)
    if len(declared) != len(shape):
        raise ValueError(
            f"input {name!r} has the shape {shape}; it takes {len(declared)} dims ({told})"
        )
    for place, (wanted, size) in enumerate(zip(declared, shape, strict=True)):
        if isinstance(wanted, int):
            if wanted != size:
                raise ValueError(
                    f"input {name!r}: dim {place} has the size {size}; the file declares {wanted} "
                    f"({told})"
                )
        elif isinstance(wanted, str) and any(map(str.isalpha, wanted)):  # else "?", as Paddle has
            if not size:  # a past that is empty yet has no length of its own
                continue
            first, where = sizes.setdefault(wanted, (size, f"dim {place} of {name!r}"))
            if first != size:
                raise ValueError(
                    f"input {name!r}: dim {place} ({wanted}) has the size {size}; {where} has "
                    f"{first} for {wanted}"
                )

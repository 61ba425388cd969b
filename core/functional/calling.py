"""torch's ways of calling, for every declared function: second names of arguments, and `out=`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.ops.common import check_tensors, is_tensor
from rushlight.core.ops.inplace import copy_
from rushlight.core.tensor import autograd

# An argument's other names: of the first one, of the second one, of the one that is named so here.
_FIRST, _SECOND = ("input", "self", "x"), ("other", "exponent", "tensor2", "vec2", "b")
_NAMES = {
    "A": ("a",), "B": ("b",), "L": ("l",), "LU": ("lu",),
    "axis": ("dim", "dims"), "keepdims": ("keepdim",), "dims": ("dim", "repeats"), "dim": ("dims",),
}  # fmt: skip
_IGNORED = ("layout", "pin_memory", "memory_format")  # they change no number
_SEVERAL = ("dims", "size", "shape", "repeats", "axis")  # a list in place of the rest of arguments


def _write(name: str, out: Any, value: Any) -> Any:
    """`value` written to `out`, which takes its shape; several results to several tensors."""
    if not is_tensor(out):
        for target, part in zip(out, value, strict=True):
            _write(name, target, part)
        return type(value)(*out) if hasattr(value, "_fields") else out
    if out.requires_grad or (value.requires_grad and autograd.is_grad_enabled()):
        raise RuntimeError(f"{name}: out= is not differentiated; call it under no_grad, or without")
    if out.layout.repeats:
        raise RuntimeError(f"{name}: several elements of out= share one position; clone() it first")
    if value.dtype.category > out.dtype.category:
        raise TypeMismatch(f"{name}: {value.dtype.name} does not fit out={out.dtype.name}")
    if value.device is not out.device:
        raise ValueError(f"{name}: the result is on {value.device}, out= on {out.device}")
    if value.shape == out.shape:
        copy_(out, value)
    else:
        out.set_(value.to(out.dtype).clone())
    return out


def check_arguments(
    name: str, fn: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Raise TypeError for an argument that is no Tensor although its annotation asks for one.

    It is called after an error, so that a right call costs nothing.
    """
    fn = getattr(fn, "listed", fn)
    if not isinstance(fn, FunctionType):
        return
    given = {**dict(zip(fn.__code__.co_varnames, args, strict=False)), **options}
    for label, kind in fn.__annotations__.items():
        if label not in given:
            continue
        if kind == "Tensor":
            check_tensors(name, **{label: given[label]})
        elif kind == "Sequence[Tensor]" and isinstance(given[label], list | tuple):
            check_tensors(name, **{f"{label}[{i}]": x for i, x in enumerate(given[label])})


def called(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with torch's second names of its arguments and with `out=`."""
    code = getattr(fn, "listed", fn).__code__
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    more, rest = bool(code.co_flags & 4), bool(code.co_flags & 8)
    if "out" in names or (rest and not more and count == 0):
        return fn
    known: dict[str, str] = {}
    for others, place in ((_FIRST, 0), (_SECOND, 1)):
        if count > place:
            known.update(dict.fromkeys(others, names[place]))
    for other, real in _NAMES.items():
        for name in set(real) & set(names):
            known[other] = name
    known = {other: name for other, name in known.items() if other not in names}

    @wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        if not options:
            try:
                return fn(*args)
            except (AttributeError, TypeError):
                check_arguments(fn.__name__, fn, args, {})
                raise
        out = options.pop("out", None)
        for name in [n for n in options if n in _IGNORED and n not in names]:
            del options[name]
        for name in [n for n in options if n in known and known[n] not in options]:
            options[known[name]] = options.pop(name)
        if more:
            first = [options.pop(n) for n in names[len(args) : count] if n in options]
            for name in [n for n in options if n in _SEVERAL and n not in names]:
                first.append(options.pop(name))
            args = (*args, *first)
        try:
            value = fn(*args, **options)
        except (AttributeError, TypeError):
            check_arguments(fn.__name__, fn, args, options)
            raise
        return value if out is None else _write(fn.__name__, out, value)

    return call

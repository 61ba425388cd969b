"""torch's ways of calling, for every declared function: second names of arguments, and `out=`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from rushlight.core.basis.errors import ArgumentError, PlaceError, TypeMismatch
from rushlight.core.ops.common import check_tensors, is_tensor
from rushlight.core.ops.inplace import copy_
from rushlight.core.tensor import autograd
from rushlight.core.tensor.grad_mode import mode

# An argument's other names: of the first one, of the second one, of the one that is named so here.
_FIRST, _SECOND = ("input", "self", "x"), ("other", "exponent", "tensor2", "vec2", "b")
_NAMES = {
    "A": ("a",),
    "B": ("b",),
    "L": ("l",),
    "LU": ("lu",),
    "axis": ("dim", "dims"),
    "keepdims": ("keepdim",),
    "dims": ("dim", "repeats"),
    "dim": ("dims",),
}
_IGNORED = ("layout", "pin_memory", "memory_format")  # they change no number
_SEVERAL = ("dims", "size", "shape", "repeats", "axis")  # a list in place of the rest of arguments


# Functions that read their inputs while they write: out= shares no memory with one.
_APART = frozenset("cat gather index_select kthvalue masked_select take topk".split())
# Functions whose out= has the dtype of the result.
_EXACT = frozenset("aminmax complex gather index_select masked_select multinomial take".split())


# How many of the first arguments must be tensors, where operators take numbers too.
_TENSORS = dict.fromkeys("copysign eq ge gt le lt max min ne fmod".split(), 1) | dict.fromkeys(
    "atan2 fmax fmin gcd heaviside hypot igamma igammac isclose lcm logaddexp logaddexp2 "
    "logical_and logical_or logical_xor maximum minimum nextafter".split(),
    2,
)
_ERRORS = (AttributeError, TypeError, ValueError, IndexError)
# torch raises a RuntimeError for much that is a ValueError, an IndexError or a TypeError in Python.
_TWINS: dict[type[Exception], type[Exception]] = {
    ValueError: ArgumentError,
    IndexError: PlaceError,
    TypeError: TypeMismatch,
}


def _twin(error: Exception) -> Exception:
    """The error as one of Python's kind that is a RuntimeError too."""
    kind = _TWINS.get(type(error))
    return error if kind is None else kind(*error.args).with_traceback(error.__traceback__)


_LACKS = re.compile(
    r"'(int|float|bool|complex|str|bytes|list|tuple|dict|range|NoneType)' object|(Tensor) has no "
)


def _mistyped(name: str, error: Exception) -> Exception:
    """A TypeError for an argument that is a plain value, or a tensor, in place of another thing."""
    if not isinstance(error, AttributeError) or not (lacks := _LACKS.match(str(error))):
        return error
    kind = lacks[1] or lacks[2]
    result = TypeError(f"{name}: an argument is of the wrong type, {kind}: {error}")
    return result.with_traceback(error.__traceback__)


def _extent(x: Any) -> tuple[int, int]:
    """The first byte of a tensor's memory and the one behind its last, in its storage."""
    low, high = x.layout.extent
    return low * x.dtype.itemsize, high * x.dtype.itemsize


def _check_memory(name: str, out: Any, inputs: Any) -> None:
    """Raise RuntimeError where `out` lies on an input, or on a part of one."""
    for x in inputs:
        if isinstance(x, list | tuple):
            _check_memory(name, out, x)
        elif is_tensor(x) and x.storage is out.storage and x.numel() and out.numel():
            same = x.layout == out.layout and x.dtype is out.dtype
            (a, b), (c, d) = _extent(x), _extent(out)
            if a < d and c < b and (name in _APART or not same):
                raise RuntimeError(
                    f"{name}: unsupported operation: out= shares memory with an "
                    "input; clone() that first"
                )


def _write(name: str, out: Any, value: Any) -> Any:
    """`value` written to `out`, which takes its shape; several results to several tensors."""
    if not is_tensor(out):
        for target, piece in zip(out, value, strict=True):
            _write(name, target, piece)
        return type(value)(*out) if hasattr(value, "_fields") else out
    if out.requires_grad or (value.requires_grad and autograd.is_grad_enabled()):
        raise RuntimeError(f"{name}: out= is not differentiated; call it under no_grad, or without")
    if out.layout.repeats:
        raise RuntimeError(f"{name}: several elements of out= share one position; clone() it first")
    if value.dtype.category > out.dtype.category or (
        name in _EXACT and value.dtype is not out.dtype
    ):
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
    arguments = {**dict(zip(fn.__code__.co_varnames, args, strict=False)), **options}
    for label, kind in fn.__annotations__.items():
        if label not in arguments:
            continue
        if kind == "Tensor":
            check_tensors(name, **{label: arguments[label]})
        elif kind == "Sequence[Tensor]" and isinstance(arguments[label], list | tuple):
            check_tensors(name, **{f"{label}[{i}]": x for i, x in enumerate(arguments[label])})


# Calls with operands of another form, such as sparse tensors: (name, args, options) to a result, or
# NotImplemented. They are asked after an error, so that a right call costs nothing.
foreign: list[Callable[[str, tuple[Any, ...], dict[str, Any]], Any]] = []


# torch's old forms put the factor before the tensors that it multiplies: x.add_(-lr, grad).
_FACTORS = {
    f"{name}{end}": label
    for end in ("", "_")
    for name, label in (
        ("add", "alpha"),
        ("sub", "alpha"),
        ("addcmul", "value"),
        ("addcdiv", "value"),
    )
}

_PRODUCTS = frozenset("addmm addmv addr addbmm baddbmm".split())


def _foreign(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    label = _FACTORS.get(name)
    if label and not options and len(args) == (3 if label == "alpha" else 4):
        x, factor, *rest = args
        if is_tensor(x) and isinstance(factor, int | float) and all(map(is_tensor, rest)):
            return getattr(x, name)(*rest, **{label: factor})
    if name.rstrip("_") in _PRODUCTS and not options:  # beta and alpha stand between them
        x, *rest = sorted(args, key=is_tensor, reverse=True)
        if is_tensor(x) and len(rest) in (3, 4) and all(map(is_tensor, rest[:2])):
            return getattr(x, name)(
                *rest[:2], **dict(zip(("beta", "alpha"), rest[2:], strict=False))
            )
    return foreign[0](name, args, options) if foreign else NotImplemented


class _Calling:
    """How a declared function may be called: the names of its arguments, and their other names."""

    __slots__ = ("count", "fn", "known", "more", "name", "names", "rest")

    def __init__(self, fn: Callable[..., Any]) -> None:
        code = getattr(fn, "listed", fn).__code__
        self.fn, self.name, self.count = fn, fn.__name__, code.co_argcount
        self.names: tuple[str, ...] = code.co_varnames[: self.count + code.co_kwonlyargcount]
        self.more, self.rest = bool(code.co_flags & 4), bool(code.co_flags & 8)
        self.known: dict[str, str] | None = None

    def others(self) -> dict[str, str]:
        """Other names of arguments; few programs ask for them, so they are made when one does."""
        if self.known is None:
            known: dict[str, str] = {}
            for others, place in ((_FIRST, 0), (_SECOND, 1)):
                if self.count > place:
                    known.update(dict.fromkeys(others, self.names[place]))
            for other, real in _NAMES.items():
                for name in set(real) & set(self.names):
                    known[other] = name
            self.known = {n: name for n, name in known.items() if n not in self.names}
        return self.known

    def final(self) -> bool:
        """Whether it says by itself what it takes."""
        return "out" in self.names or (self.rest and not self.more and self.count == 0)

    def failed(self, error: Exception, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What a call of another form gives, such as one of a sparse tensor; else the error."""
        if isinstance(error, AttributeError | TypeError):
            if (value := _foreign(self.name, args, options)) is not NotImplemented:
                return value
            check_arguments(self.name, self.fn, args, options)
            error = _mistyped(self.name, error)
        raise _twin(error) from None

    def spelled(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call with other names of arguments, or with `out=`."""
        names, known, out = self.names, self.others(), options.pop("out", None)
        if out is not None:
            for target in out if isinstance(out, list | tuple) else (out,):
                _check_memory(self.name, target, (*args, *options.values()))
        for name in [n for n in options if n in _IGNORED and n not in names]:
            del options[name]
        for name in [n for n in options if n in known and known[n] not in options]:
            options[known[name]] = options.pop(name)
        if self.more:
            first = [options.pop(n) for n in names[len(args) : self.count] if n in options]
            for name in [n for n in options if n in _SEVERAL and n not in names]:
                first.append(options.pop(name))
            args = (*args, *first)
        try:
            value = self.fn(*args, **options)
        except _ERRORS as error:
            return self.failed(error, args, options)
        return value if out is None else _write(self.name, out, value)


def called(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with torch's second names of its arguments and with `out=`."""
    calling = _Calling(fn)
    if calling.final():
        return fn
    spelled, failed = calling.spelled, calling.failed
    tensors = _TENSORS.get(fn.__name__, 0)
    # Options that no other name stands for: before `*args`, those of other forms are positional.
    accepted = frozenset(calling.names[calling.count if calling.more else 0 :])
    # What it is outside of autocast. What wraps a listed function has its attributes, too.
    plain: Callable[..., Any] = fn
    if getattr(fn, "__wrapped__", fn) is getattr(fn, "listed", None):
        plain = fn.listed  # type: ignore[attr-defined]

    # The shortest way for each kind: this runs in every call.
    if tensors:

        @wraps(fn)
        def call(*args: Any, **options: Any) -> Any:
            for x in args[:tensors]:
                if not is_tensor(x):
                    check_tensors(
                        fn.__name__, **dict(zip(calling.names, args[:tensors], strict=False))
                    )
            if options and not accepted.issuperset(options):
                return spelled(args, options)
            try:
                return (fn if mode.dtypes else plain)(*args, **options)
            except _ERRORS as error:
                return failed(error, args, options)

    elif plain is fn:

        @wraps(fn)
        def call(*args: Any, **options: Any) -> Any:
            if options and not accepted.issuperset(options):
                return spelled(args, options)
            try:
                return fn(*args, **options)
            except _ERRORS as error:
                return failed(error, args, options)

    else:

        @wraps(fn)
        def call(*args: Any, **options: Any) -> Any:
            if options and not accepted.issuperset(options):
                return spelled(args, options)
            try:
                return (fn if mode.dtypes else plain)(*args, **options)
            except _ERRORS as error:
                return failed(error, args, options)

    return call

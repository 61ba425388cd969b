"""Elementwise ops as nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.onnx.element_types import of_dtype
from rushlight.core.onnx.export.graph import BOOL, FLOAT, Emit, Graph, carried, emits
from rushlight.core.onnx.export.joining import Step

_WIDE = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}


def number_of(dtype: DType) -> int:
    """The element type that values of a dtype are carried in."""
    return of_dtype(carried(dtype)).number


def _computed(dtype: DType) -> DType:
    """The dtype that arithmetic is written in: operators have no small integers."""
    return as_dtype(_WIDE.get(dtype.name, carried(dtype).name))


def operands(g: Graph, s: Step, wide: bool = True) -> list[str]:
    """The operands of an elementwise op, small integers as larger ones if `wide`."""
    values = [v for v in s.inputs if v is not None]
    names = g.loose(s.out, *values)
    if not wide:
        return names
    out = []
    for v, name in zip(values, names, strict=True):
        dtype = g.dtype(v)
        out.append(g.cast(name, number_of(dtype), of_dtype(_computed(dtype)).number))
    return out


def narrowed(g: Graph, s: Step, name: str) -> str:
    """A result in the dtype of the op's, from that of the arithmetic."""
    dtype = g.dtype(s.out)
    return g.cast(name, of_dtype(_computed(dtype)).number, number_of(dtype))


def like(g: Graph, s: Step, value: Any) -> str:
    """A constant in the dtype that the op's operands are computed in."""
    first = s.inputs[0]
    assert first is not None
    return g.constant(np.array(value), _computed(g.dtype(first)))


def _simple(name: str, *, exact: bool = False, wide: bool = True, also: Any = None) -> None:
    """An op that is one operator; `also`: the operator for booleans."""

    def emit(g: Graph, s: Step) -> str:
        first = s.inputs[0]
        assert first is not None
        if also is not None and g.dtype(first).kind == "b":
            return g.op(also, *operands(g, s))
        return narrowed(g, s, g.op(name, *operands(g, s, wide)))

    emits(_OPS[name], exact=exact)(emit)


_OPS = {
    "Neg": "neg",
    "Abs": "abs",
    "Sign": "sign",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Reciprocal": "reciprocal",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
}
_EXACT = ("Neg", "Abs", "Sign", "Floor", "Ceil", "Round")
for _name in _OPS:
    _also = {"Add": "Or", "Mul": "And", "Sub": "Xor"}.get(_name)
    _simple(_name, exact=_name in _EXACT, also=_also)


def _whole_stays(name: str) -> Emit:
    """floor, ceil, round: of integers the integers themselves."""

    def emit(g: Graph, s: Step) -> str:
        assert s.inputs[0] is not None
        names = operands(g, s, False)
        return g.op(name, *names) if g.dtype(s.out).kind == "f" else g.op("Identity", *names)

    return emit


for _name, _op in (("Floor", "floor"), ("Ceil", "ceil"), ("Round", "round")):
    emits(_op, exact=True)(_whole_stays(_name))


@emits("trunc", exact=True)
def trunc(g: Graph, s: Step) -> str:
    """The sign times the floor of the absolute value."""
    (x,) = operands(g, s)
    if g.dtype(s.out).kind != "f":
        return g.op("Identity", g.get(s.inputs[0]))
    return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Abs", x)))


@emits("square")
def square(g: Graph, s: Step) -> str:
    """x x."""
    (x,) = operands(g, s)
    return narrowed(g, s, g.op("Mul", x, x))


@emits("rsqrt")
def rsqrt(g: Graph, s: Step) -> str:
    """1 / sqrt(x)."""
    return g.op("Reciprocal", g.op("Sqrt", *operands(g, s)))


@emits("expm1")
def expm1(g: Graph, s: Step) -> str:
    """tanh(x / 2) (e^x + 1), which keeps small numbers."""
    (x,) = operands(g, s)
    half = g.op("Tanh", g.op("Mul", x, like(g, s, 0.5)))
    return g.op("Mul", half, g.op("Add", g.op("Exp", x), like(g, s, 1)))


@emits("log1p")
def log1p(g: Graph, s: Step) -> str:
    """x log(w) / (w - 1) with w = 1 + x, rounded; x where w is 1 (Goldberg, 1991)."""
    (x,) = operands(g, s)
    one = like(g, s, 1)
    w = g.op("Add", x, one)
    below = g.op("Sub", w, one)
    plain = g.op("Or", g.op("Equal", below, like(g, s, 0)), g.op("IsInf", below))
    ratio = g.op("Div", g.op("Mul", x, g.op("Log", w)), g.op("Where", plain, one, below))
    infinite = g.op("Where", g.op("IsInf", below), below, x)
    return g.op("Where", plain, infinite, ratio)


def _by_log(base: float) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        return g.op("Mul", g.op("Log", *operands(g, s)), like(g, s, 1 / math.log(base)))

    return emit


emits("log2")(_by_log(2))
emits("log10")(_by_log(10))


@emits("relu", exact=True)
def relu(g: Graph, s: Step) -> str:
    """Relu, or Max with zero of integers."""
    (x,) = operands(g, s)
    if g.dtype(s.out).kind == "f":
        return g.op("Relu", x)
    return narrowed(g, s, g.op("Max", x, like(g, s, 0)))


@emits("silu")
def silu(g: Graph, s: Step) -> str:
    """x sigmoid(x)."""
    (x,) = operands(g, s)
    return g.op("Mul", x, g.op("Sigmoid", x))


def _gelu(approximate: str) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        (x,) = operands(g, s)
        if g.opset >= 20:
            return g.op("Gelu", x, approximate=approximate)
        if approximate == "none":
            inner = g.op("Erf", g.op("Mul", x, like(g, s, math.sqrt(0.5))))
        else:
            cube = g.op("Mul", g.op("Mul", x, x), like(g, s, 0.044715))
            scaled = g.op("Mul", g.op("Mul", x, g.op("Add", cube, like(g, s, 1))),
                          like(g, s, math.sqrt(2 / math.pi)))  # fmt: skip
            inner = g.op("Tanh", scaled)
        return g.op("Mul", g.op("Mul", x, like(g, s, 0.5)), g.op("Add", inner, like(g, s, 1)))

    return emit


emits("gelu")(_gelu("none"))
emits("gelu_tanh")(_gelu("tanh"))


def _is_float(g: Graph, s: Step) -> bool:
    assert s.inputs[0] is not None
    return g.dtype(s.inputs[0]).kind == "f"


def _never(g: Graph, s: Step, truth: bool) -> str:
    (x,) = operands(g, s)
    same = g.op("Equal", x, x)
    return same if truth else g.op("Not", same)


def _kind_test(name: str) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        if not _is_float(g, s):
            return _never(g, s, False)
        return g.op(name, *_single(g, s))

    return emit


def _single(g: Graph, s: Step) -> list[str]:
    """The operand; of float64 too, as IsInf and IsNaN take it."""
    return operands(g, s)


emits("isnan", exact=True)(_kind_test("IsNaN"))
emits("isinf", exact=True)(_kind_test("IsInf"))


@emits("isfinite", exact=True)
def isfinite(g: Graph, s: Step) -> str:
    """Neither NaN nor infinite."""
    if not _is_float(g, s):
        return _never(g, s, True)
    (x,) = operands(g, s)
    return g.op("Not", g.op("Or", g.op("IsNaN", x), g.op("IsInf", x)))


def truth(g: Graph, s: Step) -> list[str]:
    """The operands as booleans."""
    values = [v for v in s.inputs if v is not None]
    names = g.loose(s.out, *values)
    return [g.cast(n, number_of(g.dtype(v)), BOOL) for v, n in zip(values, names, strict=True)]


@emits("logical_not", exact=True)
def logical_not(g: Graph, s: Step) -> str:
    """Not."""
    return g.op("Not", *truth(g, s))


def _logical(name: str) -> Emit:
    return lambda g, s: g.op(name, *truth(g, s))


emits("logical_and", exact=True)(_logical("And"))
emits("logical_or", exact=True)(_logical("Or"))
emits("logical_xor", exact=True)(_logical("Xor"))


def _comparison(name: str, negated: bool = False) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        names = operands(g, s)
        first = s.inputs[0]
        assert first is not None
        if g.dtype(first).kind == "b" and name != "Equal":
            names = [g.cast(n, BOOL, 6) for n in names]
        result = g.op(name, *names)
        return g.op("Not", result) if negated else result

    return emit


emits("eq", exact=True)(_comparison("Equal"))
emits("ne", exact=True)(_comparison("Equal", True))
emits("lt", exact=True)(_comparison("Less"))
emits("le", exact=True)(_comparison("LessOrEqual"))
emits("gt", exact=True)(_comparison("Greater"))
emits("ge", exact=True)(_comparison("GreaterOrEqual"))


def _extreme(name: str, boolean: str) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        if g.dtype(s.out).kind == "b":
            return g.op(boolean, *operands(g, s))
        return narrowed(g, s, g.op(name, *operands(g, s)))

    return emit


emits("maximum", exact=True)(_extreme("Max", "Or"))
emits("minimum", exact=True)(_extreme("Min", "And"))


@emits("clamp", exact=True)
def clamp(g: Graph, s: Step) -> str:
    """Min of the upper bound and Max of the lower one."""
    x, low, high = operands(g, s)
    return narrowed(g, s, g.op("Min", g.op("Max", x, low), high))


def _guarded(g: Graph, s: Step, b: str) -> tuple[str, str | None]:
    """A divisor of integers without zeros, and where it was zero; None if it never is."""
    array = g.array(s.inputs[1])
    if array is not None and np.all(array != 0):
        return b, None
    zero = g.op("Equal", b, like(g, s, 0))
    return g.op("Where", zero, like(g, s, 1), b), zero


@emits("floor_divide")
def floor_divide(g: Graph, s: Step) -> str:
    """floor(a / b); of integers (a - a mod b) / b, and 0 for a divisor of zero."""
    a, b = operands(g, s)
    if _is_float(g, s):
        return g.op("Floor", g.op("Div", a, b))
    b, zero = _guarded(g, s, b)
    result = g.op("Div", g.op("Sub", a, g.op("Mod", a, b)), b)
    if zero is not None:
        result = g.op("Where", zero, like(g, s, 0), result)
    return narrowed(g, s, result)


@emits("remainder")
def remainder(g: Graph, s: Step) -> str:
    """a - b floor(a / b); of integers Mod, and 0 for a divisor of zero."""
    a, b = operands(g, s)
    if _is_float(g, s):
        return g.op("Sub", a, g.op("Mul", b, g.op("Floor", g.op("Div", a, b))))
    b, zero = _guarded(g, s, b)
    result = g.op("Mod", a, b)
    if zero is not None:
        result = g.op("Where", zero, like(g, s, 0), result)
    return narrowed(g, s, result)


@emits("pow")
def to_the_power(g: Graph, s: Step) -> str:
    """Pow."""
    return narrowed(g, s, g.op("Pow", *operands(g, s)))


@emits("where", exact=True)
def where(g: Graph, s: Step) -> str:
    """Where."""
    condition, a, b = (v for v in s.inputs if v is not None)
    test, x, y = g.loose(s.out, condition, a, b)
    return g.op("Where", g.cast(test, number_of(g.dtype(condition)), BOOL), x, y)


@emits("add_scaled")
def add_scaled(g: Graph, s: Step) -> str:
    """a + b c."""
    a, b, c = operands(g, s)
    return g.op("Add", a, g.op("Mul", b, c))


def _bits(boolean: str, name: str) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        if g.dtype(s.out).kind == "b":
            return g.op(boolean, *operands(g, s))
        if g.opset < 18:
            raise g.fail(s, f"needs the operator {name} of opset 18; pass opset=18 or more")
        return g.op(name, *operands(g, s, False))

    return emit


emits("bitwise_and", exact=True)(_bits("And", "BitwiseAnd"))
emits("bitwise_or", exact=True)(_bits("Or", "BitwiseOr"))
emits("bitwise_xor", exact=True)(_bits("Xor", "BitwiseXor"))
emits("bitwise_not", exact=True)(_bits("Not", "BitwiseNot"))


def _shift(left: bool) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        array = g.array(s.inputs[1])
        bits = 8 * g.dtype(s.out).itemsize
        if array is None or np.any(array < 0) or np.any(array >= bits):
            raise g.fail(s, "shifts by numbers that are not known; shift by constants")
        if g.dtype(s.out).name in ("uint64", "uint32", "uint8"):
            direction = "LEFT" if left else "RIGHT"
            return g.op("BitShift", *operands(g, s, False), direction=direction)
        a = operands(g, s)[0]
        factor = like(g, s, np.left_shift(1, array.astype(np.int64)))
        if left:
            return narrowed(g, s, g.op("Mul", a, factor))
        rest = g.op("Sub", a, g.op("Mod", a, factor))
        return narrowed(g, s, g.op("Div", rest, factor))

    return emit


emits("bitwise_left_shift", exact=True)(_shift(True))
emits("bitwise_right_shift", exact=True)(_shift(False))


@emits("cast")
def cast(g: Graph, s: Step) -> str:
    """Cast."""
    source = s.inputs[0]
    assert source is not None
    have, want = number_of(g.dtype(source)), number_of(g.dtype(s.out))
    name = g.get(source)
    return name if have == want else g.op("Cast", name, to=want)


@emits("copy", "conj", exact=True)
def copy(g: Graph, s: Step) -> str:
    """The value itself: nothing writes in place here."""
    return g.get(s.inputs[0])


__all__ = ["FLOAT", "like", "narrowed", "number_of", "operands", "truth"]

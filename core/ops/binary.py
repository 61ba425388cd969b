"""Elementwise ops of two inputs, a row each; operands are promoted and broadcast first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rushlight.core.backends import special
from rushlight.core.backends.elementwise import elementwise
from rushlight.core.basis.dtype import bool_, uint8
from rushlight.core.basis.errors import RangeError, ShapeError, TypeMismatch
from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import (
    TensorLike,
    alike,
    converted,
    floating,
    is_tensor,
    numbers,
    operands,
    promoted,
    repeated,
)
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.unary import floor, log, square, trunc, turned
from rushlight.core.tensor.autograd import needs_gradient
from rushlight.core.tensor.op import Context, Meta, Op, Rule, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

A, B, OUT = 0, 1, "out"
Binary = Callable[["TensorLike", "TensorLike"], "Tensor"]


def _infer(a: Meta, b: Meta) -> Meta:
    return a.fresh()


def _infer_bool(a: Meta, b: Meta) -> Meta:
    return a.fresh(dtype=bool_)


def _named(call: Binary, name: str, doc: str, also: tuple[str, ...] = ()) -> Binary:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc} Elementwise on the promoted dtype, broadcast to one shape."
    return public(method(name, *also)(call))


def binary(
    name: str,
    numpy: Callable[..., Any],
    wgsl: str | Mapping[str, str],
    doc: str,
    *grads: Rule,
    bools: str | None = None,
    also: tuple[str, ...] = (),
    wrap: bool = True,
    complex: bool = False,
) -> Binary:
    """Declare an op of two operands, one of which may be a Python number: rl.NAME, Tensor.NAME.

    wgsl: see `Elementwise`. bools: the hint for two booleans if they are refused, as in torch, else
    None. also: more names of the method. wrap: see `operands`. complex: see `Op`. A row of
    simd_kernels/elementwise.def of the same name is its C kernel.
    """
    call = _binary(name, numpy, wgsl, *grads, bools=bools, wrap=wrap, complex=complex)
    return _named(call, name, doc, also)


def _binary(
    name: str,
    numpy: Callable[..., Any],
    wgsl: str | Mapping[str, str],
    *grads: Rule,
    bools: str | None = None,
    wrap: bool = True,
    complex: bool = False,
) -> Binary:
    """The op of a row, without a public name."""
    elementwise(name, 2, numpy, wgsl)
    op = Op(
        name, infer=_infer, grads=grads, differentiable=bool(grads), complex=complex, batch="same"
    )

    def call(a: TensorLike, b: TensorLike) -> Tensor:
        x, y = operands(name, a, b, wrap=wrap)
        if bools is not None and x.dtype is bool_:
            raise TypeError(f"{name}: two bool operands are not supported; {bools}")
        return op(x, y)

    call.row = op  # type: ignore[attr-defined]  # what it does to floats of one shape
    return call


def comparison(
    name: str,
    numpy: Callable[..., Any],
    wgsl: str | Mapping[str, str],
    doc: str,
    *also: str,
    complex: bool = False,
) -> Binary:
    """Declare a comparison, with booleans as results; `also`: more names of the method."""
    elementwise(name, 2, numpy, wgsl, truth=True)
    op = Op(name, infer=_infer_bool, differentiable=False, complex=complex, batch="same")
    return _named(lambda a, b: op(*operands(name, a, b, wrap=True)), name, doc, also)


def _or_unequal(compare: Binary) -> Binary:
    """The operator of a comparison: what is neither number nor tensor is unequal, as in torch."""

    def operate(a: TensorLike, b: TensorLike) -> Any:
        try:
            return compare(a, b)
        except TypeError:
            if is_tensor(b) or isinstance(b, int | float | np.generic | np.ndarray):
                raise
            return NotImplemented

    operate.__name__ = operate.__qualname__ = f"{compare.__name__}_operator"
    operate.__doc__ = compare.__doc__
    return operate


def bitwise(
    name: str,
    numpy: Callable[..., Any],
    wgsl: str | Mapping[str, str],
    doc: str,
    *also: str,
    kinds: str = "bui",
) -> Binary:
    """Declare an op of two integers or booleans; `also`: more names of the method."""
    elementwise(name, 2, numpy, wgsl)
    op = Op(name, infer=_infer, differentiable=False, batch="same")

    def call(a: TensorLike, b: TensorLike) -> Tensor:
        x, y = operands(name, a, b, wrap=True)
        if x.dtype.kind not in kinds:
            allowed = "a bool or an integer" if "b" in kinds else "an integer"
            raise TypeMismatch(f"{name}: {x.dtype.name} is not {allowed} dtype")
        return op(x, y)

    return _named(call, name, doc, also)


def _minus(c: Context, g: Tensor) -> Tensor:
    return -g


def _share(g: Tensor, x: Tensor, other: Tensor) -> Tensor:
    # As in torch: half of the gradient each where they are equal, all of it where one is nan.
    return g * (1 - (x < other).to(g.dtype) - (x == other).to(g.dtype) * 0.5)


def _pow_base(c: Context, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    # A power of zero has gradient zero, even at a = 0 where a ** -1 is infinite.
    return where(b == 0, 0.0, g * turned(b * pow(a, where(b == 0, 1.0, b - 1))))


def _pow_exponent(c: Context, g: Tensor, a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    # 0 ** b is constant for b >= 0, although log 0 is -inf.
    constant = (a == 0) & (b.real >= 0)
    return where(constant, 0.0, g * turned(y * log(where(constant, 1.0, a))))


def _same(wgsl: str) -> dict[str, str]:
    return dict.fromkeys("fiub", wgsl)


def _by_kind(name: str) -> dict[str, str]:
    """A function of WGSL for each kind: NAME_f, NAME_i and NAME_u."""
    return {kind: f"{name}_{kind}(a, b)" for kind in "fiu"}


def _truths(operator: str) -> dict[str, str]:
    zeros = {"i": "0", "u": "0u", "b": "0u"}
    truths = {kind: f"(a != {zero}) {operator} (b != {zero})" for kind, zero in zeros.items()}
    return {**truths, "f": f"not_zero(a) {operator} not_zero(b)"}


_CONVERT = "convert one with .long()"
_add = _binary(
    "add",
    np.add,
    {**_same("a + b"), "b": "a | b", "int64": "add_64(a, b)"},
    rule(lambda c, g: g),
    rule(lambda c, g: g),
    complex=True,
)
_sub = _binary(
    "sub",
    np.subtract,
    {**_same("a - b"), "int64": "sub_64(a, b)"},
    rule(lambda c, g: g),
    rule(_minus),
    bools="use a ^ b, or convert one with .long()",
    complex=True,
)
mul = binary(
    "mul",
    np.multiply,
    {**_same("a * b"), "int64": "mul_64(a, b)"},
    "a * b.",
    rule(lambda c, g, b: g * turned(b), B),
    rule(lambda c, g, a: g * turned(a), A),
    also=("__mul__", "__rmul__"),
    complex=True,
)
elementwise("div", 2, np.divide, "div_f(a, b)")
DIV = Op(
    "div",
    infer=_infer,
    grads=(
        rule(lambda c, g, b: g / turned(b), B),
        rule(lambda c, g, b, y: -g * turned(y) / turned(b), B, OUT),
    ),
    complex=True,
    batch="same",
)
floor_divide = binary(
    "floor_divide",
    np.floor_divide,
    {**_by_kind("floor_divide"), "int64": "floor_divide_64(a, b)"},
    "The largest integer <= a / b; an integer divided by zero gives 0.",
    bools=_CONVERT,
    also=("__floordiv__",),
)
remainder = binary(
    "remainder",
    np.remainder,
    _by_kind("remainder"),
    "a - b * floor(a / b), with the sign of b.",
    rule(lambda c, g: g),
    rule(lambda c, g, a, b: -g * floor(a / b), A, B),
    bools=_CONVERT,
    also=("__mod__",),
)
_pow = _binary(
    "pow",
    special.power,
    {**_by_kind("pow"), "int64": "pow_64(a, b)"},
    rule(_pow_base, A, B),
    rule(_pow_exponent, A, B, OUT),
    bools=_CONVERT,
    wrap=False,
    complex=True,
)
maximum = binary(
    "maximum",
    np.maximum,
    {**_same("max(a, b)"), "f": "maximum_f(a, b)"},
    "The larger of a and b; nan if either is.",
    rule(lambda c, g, a, b: _share(g, a, b), A, B),
    rule(lambda c, g, a, b: _share(g, b, a), A, B),
    wrap=False,
)
minimum = binary(
    "minimum",
    np.minimum,
    {**_same("min(a, b)"), "f": "minimum_f(a, b)"},
    "The smaller of a and b; nan if either is.",
    rule(lambda c, g, a, b: _share(g, b, a), A, B),
    rule(lambda c, g, a, b: _share(g, a, b), A, B),
    wrap=False,
)

eq = comparison("eq", np.equal, "a == b", "a == b.", complex=True)
ne = comparison(
    "ne",
    np.not_equal,
    {**_same("a != b"), "f": "a != b || is_nan(a) || is_nan(b)"},
    "a != b.",
    complex=True,
)
eq_operator = method("__eq__")(_or_unequal(eq))
ne_operator = method("__ne__")(_or_unequal(ne))
lt = comparison("lt", np.less, "a < b", "a < b.", "__lt__")
le = comparison("le", np.less_equal, "a <= b", "a <= b.", "__le__")
gt = comparison("gt", np.greater, "a > b", "a > b.", "__gt__")
ge = comparison("ge", np.greater_equal, "a >= b", "a >= b.", "__ge__")
logical_and = comparison(
    "logical_and", np.logical_and, _truths("&&"), "Whether both are non-zero.", complex=True
)
logical_or = comparison(
    "logical_or", np.logical_or, _truths("||"), "Whether one or both are non-zero.", complex=True
)
logical_xor = comparison(
    "logical_xor", np.logical_xor, _truths("!="), "Whether exactly one is non-zero.", complex=True
)
bitwise_and = bitwise(
    "bitwise_and", np.bitwise_and, "a & b", "a & b, bit by bit.", "__and__", "__rand__"
)
bitwise_or = bitwise(
    "bitwise_or", np.bitwise_or, "a | b", "a | b, bit by bit.", "__or__", "__ror__"
)
bitwise_xor = bitwise(
    "bitwise_xor", np.bitwise_xor, "a ^ b", "a ^ b, bit by bit.", "__xor__", "__rxor__"
)


@public
@method("add", "__add__", "__radd__")
def add(a: TensorLike, b: TensorLike, *, alpha: float = 1) -> Tensor:
    """a + alpha * b, elementwise on the promoted dtype, broadcast to one shape.

    `a` and `b` are tensors or numbers. Raises ShapeError for shapes that do not broadcast,
    TypeError for quantized ones.
    """
    return _add(a, b if alpha == 1 else mul(b, alpha) if is_tensor(b) else b * alpha)


@public
@method("sub", "__sub__")
def sub(a: TensorLike, b: TensorLike, *, alpha: float = 1) -> Tensor:
    """a - alpha * b, elementwise on the promoted dtype, broadcast to one shape.

    `a` and `b` are tensors or numbers. Raises ShapeError for shapes that do not broadcast,
    TypeError for quantized ones.
    """
    return _sub(a, b if alpha == 1 else mul(b, alpha) if is_tensor(b) else b * alpha)


@public
@method("div", "__truediv__")
def div(a: TensorLike, b: TensorLike, *, rounding_mode: str | None = None) -> Tensor:
    """a / b; integers give the default dtype unless rounding_mode is "floor" or "trunc".

    `a` and `b` are tensors or numbers. Raises ShapeError for shapes that do not broadcast,
    ValueError for another mode.
    """
    if rounding_mode == "floor":
        result = floor_divide(a, b)
        if not needs_gradient(*(v for v in (a, b) if is_tensor(v))):  # type: ignore[arg-type]
            return result
        # The quotient keeps the graph, with gradient zero, as in torch.
        return where(result == result, result, div(a, b))
    if rounding_mode not in (None, "trunc"):
        raise ValueError(
            f'div: rounding_mode is {rounding_mode!r}; it must be None, "floor" or "trunc"'
        )
    if rounding_mode is None:
        a, b = (float(v) if isinstance(v, int) else v for v in (a, b))
    x, y = operands("div", a, b)
    if x.dtype.kind in "fc":
        return DIV(x, y) if rounding_mode is None else trunc(DIV(x, y))
    if rounding_mode is None:
        return DIV(floating("div", x), floating("div", y))
    below = (remainder(x, y) != 0) & ((x < 0) ^ (y < 0))
    return floor_divide(x, y) + below.to(x.dtype)


@public
@method("pow", "__pow__")
@casts(accelerator="float32")
def pow(a: TensorLike, b: TensorLike) -> Tensor:
    """a ** b. Elementwise on the promoted dtype, broadcast to one shape."""
    if isinstance(b, (int, float)) and b == 2 and is_tensor(a) and a.dtype.kind in "fc":  # type: ignore[union-attr]
        return square(a)  # type: ignore[arg-type]
    if type(b) is int and b < 0 and is_tensor(a) and a.dtype.kind in "iu":  # type: ignore[union-attr]
        raise RangeError(
            f"pow: an integer has no integer power of {b}; use a.float() ** {b}, or a number as "
            f"{float(b)}"
        )
    return _pow(a, b)


def exchanged(
    name: str, fn: Callable[[Any, Any], Tensor], sign: str, *names: str, accelerator: str = ""
) -> Callable[[TensorLike, TensorLike], Tensor]:
    """Declare an operator with its operands exchanged, such as `__rsub__`, under `names`."""

    def turned_round(b: TensorLike, a: TensorLike) -> Tensor:
        return fn(a, b)

    turned_round.__name__ = turned_round.__qualname__ = name
    turned_round.__module__ = fn.__module__
    turned_round.__doc__ = f"a {sign} b, with the operands exchanged."
    if accelerator:
        turned_round = casts(accelerator=accelerator)(turned_round)
    return method(*names)(turned_round)


reversed_sub = exchanged("reversed_sub", _sub, "-", "__rsub__")
rdiv = exchanged("rdiv", div, "/", "__rtruediv__", "__rdiv__", accelerator="float32")
rpow = exchanged("rpow", pow, "**", "__rpow__", accelerator="float32")
rfloordiv = exchanged("rfloordiv", floor_divide, "//", "__rfloordiv__")
rmod = exchanged("rmod", remainder, "%", "__rmod__")


def _infer_where(cond: Meta, a: Meta, b: Meta) -> Meta:
    return a.fresh()


def _where_a(c: Context, g: Tensor, cond: Tensor) -> Tensor:
    return WHERE(cond, g, g.zeros_like())


def _where_b(c: Context, g: Tensor, cond: Tensor) -> Tensor:
    return WHERE(cond, g.zeros_like(), g)


WHERE = Op(
    "where",
    infer=_infer_where,
    grads=(None, rule(_where_a, 0), rule(_where_b, 0)),
    complex=True,
    batch="same",
)


def _clamp_x(c: Context, g: Tensor, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    # Nothing at a bound, as in torch 2.14; an infinite bound bounds nothing.
    above, below = (x > low) | (low == -math.inf), (x < high) | (high == math.inf)
    return where(above & below, g, 0.0)


def _clamp_low(c: Context, g: Tensor, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return where((x < low) & (low < high), g, 0.0)


def _clamp_high(c: Context, g: Tensor, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return where((x > high) | (low > high), g, 0.0)


elementwise(
    "clamp", 3, special.clamp, {**_same("min(max(a, b), c)"), "f": "minimum_f(maximum_f(a, b), c)"}
)
# x in [low, high], high where they cross.
CLAMP = Op(
    "clamp",
    infer=lambda x, low, high: x.fresh(),
    grads=tuple(rule(fn, A, B, 2) for fn in (_clamp_x, _clamp_low, _clamp_high)),
    batch="same",
)


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: TensorLike, other: TensorLike) -> Tensor: ...
@public
def where(
    condition: Tensor, input: TensorLike | None = None, other: TensorLike | None = None
) -> Any:
    """`input` where `condition` (bool, or bytes) holds and `other` elsewhere, of one shape.

    Both are broadcast. With the condition alone: the indices where it holds, a tensor for each dim.

    Raises ShapeError for shapes that do not broadcast, TypeError for another dtype of the
    condition, or one of the two alone.
    """
    a, b = input, other
    if a is None or b is None:
        if a is not None or b is not None:
            raise TypeError("where: give both input and other, or neither")
        return condition.nonzero(as_tuple=True)
    if condition.dtype is uint8:
        condition = condition.to(bool_)
    if condition.dtype is not bool_:
        raise TypeMismatch(f"where: condition is {condition.dtype.name}; it must be bool")
    first, second = _beside(a, b), _beside(b, a)
    if first is not None and second is not None and alike(condition, first, second):
        return WHERE(condition, first, second)
    values = numbers("where", (a, b))
    return _select(condition, *converted("where", values, promoted(*values), condition.device))


def _beside(value: TensorLike, other: TensorLike) -> Tensor | None:
    """A tensor, or a number as floats of `other` have it; None for what is converted elsewhere."""
    if is_tensor(value):
        return value  # type: ignore[return-value]
    if value.__class__ not in (float, int) or not is_tensor(other) or other.dtype.kind != "f":  # type: ignore[union-attr]
        return None
    like: Tensor = other  # type: ignore[assignment]
    return repeated(value, like.dtype, like.storage.device, like.layout.shape)


@method("where")
def _where(x: Tensor, condition: Tensor, other: TensorLike) -> Tensor:
    """This tensor where `condition` (bool) holds and `other` elsewhere.

    `x` is this tensor. Raises ShapeError for shapes that do not broadcast, TypeError for another
    dtype.
    """
    return where(condition, x, other)


def _select(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    shape = broadcast_shapes("where", condition.shape, a.shape, b.shape)
    return WHERE(condition.expand(*shape), a.expand(*shape), b.expand(*shape))


@public
@method()
def masked_fill(x: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """`x` with `value` where `mask` (bool, broadcast to x) holds; same shape and dtype as x.

    Raises TypeError for another dtype of the mask, ShapeError for shapes that do not broadcast to
    x's.
    """
    if mask.dtype is not bool_:
        raise TypeMismatch(f"masked_fill: mask is {mask.dtype.name}; it must be bool")
    if is_tensor(value) and value.ndim:  # type: ignore[union-attr]
        raise ShapeError(f"masked_fill: value is {value.shape}; it must be 0-d")  # type: ignore[union-attr]
    if x.dtype.kind != "c" and (
        isinstance(value, complex) or (is_tensor(value) and value.dtype.kind == "c")  # type: ignore[union-attr]
    ):
        raise RangeError(f"masked_fill: a complex value does not fit dtype {x.dtype.name}")
    if (filled := _beside(value, x)) is not None and alike(mask, filled, x):
        return WHERE(mask, filled, x)
    # The value is converted to the dtype of x, so that no element of x loses digits.
    broadcast_shapes("masked_fill", x.shape, mask.shape)
    values = numbers("masked_fill", (value, x))
    return _select(mask, *converted("masked_fill", values, x.dtype, x.device))

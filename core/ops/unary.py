"""Elementwise ops of one input, a row each, with the NumPy function and the gradient."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import special
from rushlight.core.backends.elementwise import elementwise
from rushlight.core.basis.dtype import PARTS, DType, bool_, int64, uint8
from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import floating
from rushlight.core.ops.declare import method, network, public
from rushlight.core.tensor.grad_mode import is_grad_enabled
from rushlight.core.tensor.op import Context, Meta, Op, Rule, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

X, OUT = 0, "out"
Unary = Callable[["Tensor"], "Tensor"]


def _infer_same(x: Meta) -> Meta:
    return x.fresh()


def _infer_size(x: Meta) -> Meta:
    return x.fresh(dtype=PARTS.get(x.dtype, x.dtype))


elementwise("conj", 1, np.conjugate, "a")
CONJ: Op = Op(
    "conj", infer=_infer_same, grads=(rule(lambda c, g: turned(g)),), complex=True, batch="same"
)


def turned(x: Tensor) -> Tensor:
    """The complex conjugate; `x` itself where it is real."""
    return CONJ(x) if x.dtype.kind == "c" else x


_turned: Any = turned  # of a rule's operands, whose types it does not say


def direction(x: Tensor) -> Tensor:
    """x / |x|, 0 at 0."""
    if x.dtype.kind != "c":
        return sign(x)
    size = abs(x)
    return x / size.masked_fill(size == 0, 1)


def _infer_bool(x: Meta) -> Meta:
    return x.fresh(dtype=bool_)


def unary(
    name: str,
    numpy: Callable[..., Any],
    wgsl: str | Mapping[str, str],
    doc: str,
    grad: Rule | None = None,
    *,
    cast: bool = True,
    also: tuple[str, ...] = (),
    networks: bool = False,
    private: bool = False,
    boolean: DType | None = None,
    complex: bool = False,
    accelerator: str | None = None,
) -> Unary:
    """Declare an op of one tensor: rl.NAME and Tensor.NAME, unless it is `private`.

    wgsl: see `Elementwise`. cast: integers take the default dtype first. also: more method names.
    networks: declare rl.nn.functional.NAME too. boolean: what a bool becomes; else it is refused,
    unless `cast`. complex: see `Op`. accelerator: see `casts`. A row of
    simd_kernels/elementwise.def of the same name is its C kernel.
    """
    elementwise(name, 1, numpy, wgsl)
    op = Op(
        name,
        infer=_infer_size if name == "abs" else _infer_same,
        grads=() if grad is None else (grad,),
        differentiable=grad is not None,
        complex=complex,
        batch="same",
    )

    def call(x: Tensor) -> Tensor:
        if not cast and x.dtype is bool_:
            if boolean is None:
                raise TypeMismatch(
                    f"{name}: bool is not supported; convert with .long() or .float() first"
                )
            return op(x.to(uint8 if boolean is bool_ else boolean)).to(boolean)
        return op(floating(name, x) if cast else x)

    call.row = op  # type: ignore[attr-defined]  # what it does to floats
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc} Elementwise; same shape" + (
        "; integers take the default dtype." if cast else " and dtype."
    )
    casts(accelerator=accelerator)(call)
    if networks:
        network(call)
    return call if private else public(method(name, *also)(call))


def predicate(
    name: str,
    numpy: Callable[..., Any],
    wgsl: str | Mapping[str, str],
    doc: str,
    *,
    complex: bool = False,
) -> Unary:
    """Declare an op of one tensor with booleans as results."""
    elementwise(name, 1, numpy, wgsl, truth=True)
    op = Op(name, infer=_infer_bool, differentiable=False, complex=complex, batch="same")

    def call(x: Tensor) -> Tensor:
        return op(x)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc} Elementwise; bool of the same shape."
    return public(method()(call))


def _zero(c: Context, g: Tensor) -> Tensor:
    return g.zeros_like()


neg = unary(
    "neg",
    np.negative,
    {"f": "-a", "i": "-a", "u": "0u - a", "int64": "sub_64(0, a)"},
    "-x.",
    rule(lambda c, g: -g),
    cast=False,
    also=("__neg__",),
    complex=True,
)
abs = unary(
    "abs",
    np.absolute,
    {**dict.fromkeys("fiu", "abs(a)"), "int64": "select(a, sub_64(0, a), a < 0)"},
    "|x|.",
    rule(lambda c, g, x: g * direction(x), X),
    cast=False,
    also=("__abs__",),
    complex=True,
)
sign: Unary = unary(
    "sign",
    special.sign,
    {"f": "sign_f(a)", "i": "sign(a)", "u": "min(a, 1u)"},
    "-1, 0 or 1, the sign of x.",
    rule(_zero),
    cast=False,
    boolean=bool_,
)
square = unary(
    "square",
    np.square,
    {**dict.fromkeys("fiu", "a * a"), "int64": "mul_64(a, a)"},
    "x * x.",
    rule(lambda c, g, x: g * (_turned(x) * 2), X),
    cast=False,
    boolean=int64,
    complex=True,
)
floor = unary(
    "floor",
    special.whole(np.floor),
    {"f": "floor(a)", "i": "a", "u": "a"},
    "The largest integer <= x.",
    rule(_zero),
    cast=False,
)
ceil = unary(
    "ceil",
    special.whole(np.ceil),
    {"f": "ceil(a)", "i": "a", "u": "a"},
    "The smallest integer >= x.",
    rule(_zero),
    cast=False,
)
trunc = unary(
    "trunc",
    special.whole(np.trunc),
    {"f": "trunc(a)", "i": "a", "u": "a"},
    "x without its fractional part.",
    rule(_zero),
    cast=False,
)
_round = unary(
    "round",
    special.whole(np.rint),
    {"f": "round(a)", "i": "a", "u": "a"},
    "The nearest integer.",
    rule(_zero),
    cast=False,
    private=True,
)


@public
@method()
def round(x: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest integer, halves to even, or multiple of 10 ** -decimals. Elementwise."""
    if decimals == 0 or not x.dtype.is_floating_point:
        return _round(x)
    # Beyond 308 the power is infinite and the result nan, as in torch.
    scale = math.inf if builtins.abs(decimals) > 308 else 10.0 ** builtins.abs(decimals)
    result: Tensor = _round(x * scale) / scale if decimals > 0 else _round(x / scale) * scale
    return result


exp = unary(
    "exp",
    np.exp,
    "exp_f(a)",
    "e ** x.",
    rule(lambda c, g, y: g * _turned(y), OUT),
    complex=True,
    accelerator="float32",
)
expm1 = unary(
    "expm1",
    np.expm1,
    "expm1_f(a)",
    "e ** x - 1.",
    rule(lambda c, g, y: g * (_turned(y) + 1), OUT),
    complex=True,
    accelerator="float32",
)
log = unary(
    "log",
    np.log,
    "log_f(a)",
    "Natural logarithm; nan below zero.",
    rule(lambda c, g, x: g / _turned(x), X),
    complex=True,
    accelerator="float32",
)
log1p = unary(
    "log1p",
    np.log1p,
    "log1p_f(a)",
    "log(1 + x).",
    rule(lambda c, g, x: g / (_turned(x) + 1), X),
    complex=True,
    accelerator="float32",
)
log2 = unary(
    "log2",
    np.log2,
    "log2_f(a)",
    "log base 2.",
    rule(lambda c, g, x: g / (_turned(x) * math.log(2)), X),
    complex=True,
    accelerator="float32",
)
log10 = unary(
    "log10",
    np.log10,
    "log10_f(a)",
    "log base 10.",
    rule(lambda c, g, x: g / (_turned(x) * math.log(10)), X),
    complex=True,
    accelerator="float32",
)
sqrt = unary(
    "sqrt",
    np.sqrt,
    "sqrt_f(a)",
    "Square root.",
    rule(lambda c, g, y: g / (_turned(y) * 2), OUT),
    complex=True,
)
rsqrt = unary(
    "rsqrt",
    special.rsqrt,
    "rsqrt_f(a)",
    "1 / sqrt(x).",
    rule(lambda c, g, y: g * _turned(y * y * y * -0.5), OUT),
    complex=True,
    accelerator="float32",
)
reciprocal = unary(
    "reciprocal",
    np.reciprocal,
    "reciprocal_f(a)",
    "1 / x.",
    rule(lambda c, g, y: -g * _turned(y * y), OUT),
    complex=True,
    accelerator="float32",
)
sin = unary(
    "sin",
    np.sin,
    "sin_f(a)",
    "Sine of x radians.",
    rule(lambda c, g, x: g * _turned(cos(x)), X),
    complex=True,
)
cos: Unary = unary(
    "cos",
    np.cos,
    "cos_f(a)",
    "Cosine of x radians.",
    rule(lambda c, g, x: -g * _turned(sin(x)), X),
    complex=True,
)
tan = unary(
    "tan",
    np.tan,
    "tan_f(a)",
    "Tangent of x radians.",
    rule(lambda c, g, y: g * _turned(y * y + 1), OUT),
    complex=True,
    accelerator="float32",
)
asin = unary(
    "asin",
    np.arcsin,
    "asin_f(a)",
    "Inverse sine.",
    rule(lambda c, g, x: g * _turned(rsqrt(1 - x * x)), X),
    complex=True,
    accelerator="float32",
)
acos = unary(
    "acos",
    np.arccos,
    "acos_f(a)",
    "Inverse cosine.",
    rule(lambda c, g, x: -g * _turned(rsqrt(1 - x * x)), X),
    complex=True,
    accelerator="float32",
)
atan = unary(
    "atan",
    np.arctan,
    "atan_f(a)",
    "Inverse tangent.",
    rule(lambda c, g, x: g / _turned(x * x + 1), X),
    complex=True,
)
sinh = unary(
    "sinh",
    np.sinh,
    "sinh_f(a)",
    "Hyperbolic sine.",
    rule(lambda c, g, x: g * _turned(cosh(x)), X),
    complex=True,
    accelerator="float32",
)
cosh: Unary = unary(
    "cosh",
    np.cosh,
    "cosh_f(a)",
    "Hyperbolic cosine.",
    rule(lambda c, g, x: g * _turned(sinh(x)), X),
    complex=True,
    accelerator="float32",
)
tanh = unary(
    "tanh",
    np.tanh,
    "tanh_f(a)",
    "Hyperbolic tangent.",
    rule(lambda c, g, y: g * _turned(1 - y * y), OUT),
    networks=True,
    complex=True,
)
erf = unary(
    "erf",
    special.erf,
    "erf_f(a)",
    "The error function.",
    rule(lambda c, g, x: g * (2 / math.sqrt(math.pi)) * exp(-(x * x)), X),
)
sigmoid = unary(
    "sigmoid",
    special.sigmoid,
    "sigmoid_f(a)",
    "1 / (1 + exp(-x)).",
    rule(lambda c, g, y: g * _turned(y * (1 - y)), OUT),
    networks=True,
    complex=True,
)


def _relu_grad(c: Context, g: Tensor, y: Tensor) -> Tensor:
    # With create_graph the second gradient of the input is zeros, as in torch, and not none. A nan
    # lets the gradient through, as in torch: y is 0, positive or nan.
    return g * (sign(y.masked_fill(y != y, 1.0)) if is_grad_enabled() else (y != 0).to(g.dtype))


relu = unary(
    "relu",
    special.relu,
    {"f": "relu_f(a)", "i": "max(a, 0)", "u": "a"},
    "max(x, 0).",
    rule(_relu_grad, OUT),
    cast=False,
)


def _silu_grad(c: Context, g: Tensor, x: Tensor) -> Tensor:
    s = sigmoid(x)
    result: Tensor = g * _turned(s * (x * (1 - s) + 1))
    return result


def _gelu_grad(c: Context, g: Tensor, x: Tensor) -> Tensor:
    # d/dx x Phi(x) = Phi(x) + x phi(x), with the normal density phi.
    density = exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * ((erf(x * math.sqrt(0.5)) + 1) * 0.5 + x * density)


def _gelu_tanh_grad(c: Context, g: Tensor, x: Tensor) -> Tensor:
    k = math.sqrt(2 / math.pi)
    t = tanh(x * (x * x * 0.044715 + 1) * k)
    inner = (x * x * (3 * 0.044715) + 1) * k
    return g * ((t + 1) * 0.5 + x * (1 - t * t) * inner * 0.5)


silu = unary(
    "silu",
    special.silu,
    "silu_f(a)",
    "x * sigmoid(x) (Elfwing et al., 2017).",
    rule(_silu_grad, X),
    complex=True,
)
_gelu_erf = unary("gelu", special.gelu, "gelu_f(a)", "x Phi(x).", rule(_gelu_grad, X), private=True)
_gelu_tanh = unary(
    "gelu_tanh",
    special.gelu_tanh,
    "gelu_tanh_f(a)",
    "gelu, by tanh.",
    rule(_gelu_tanh_grad, X),
    private=True,
)

_NEVER = {"i": "false", "u": "false", "b": "false"}
isnan = predicate(
    "isnan", np.isnan, {"f": "is_nan(a)", **_NEVER}, "Whether x is not a number.", complex=True
)
isinf = predicate(
    "isinf", np.isinf, {"f": "is_inf(a)", **_NEVER}, "Whether x is infinite.", complex=True
)
isfinite = predicate(
    "isfinite",
    np.isfinite,
    {"f": "is_finite(a)", "i": "true", "u": "true", "b": "true"},
    "Whether x is neither infinite nor nan.",
    complex=True,
)
logical_not = predicate(
    "logical_not",
    np.logical_not,
    {"f": "a == 0.0", "i": "a == 0", "u": "a == 0u", "b": "a == 0u"},
    "Whether x is zero.",
    complex=True,
)


@public
@network
@method()
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016); same shape.

    approximate: "none" uses the error function, "tanh" the tanh formula. ValueError for others.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'gelu: approximate is {approximate!r}; it must be "none" or "tanh"')
    return _gelu_tanh(x) if approximate == "tanh" else _gelu_erf(x)


elementwise("bitwise_not", 1, np.bitwise_not, {"i": "~a", "u": "~a", "b": "1u - a"})
_NOT = Op("bitwise_not", infer=_infer_same, differentiable=False, batch="same")


@public
@method("bitwise_not", "__invert__")
def bitwise_not(x: Tensor) -> Tensor:
    """Every bit of an integer flipped, or a boolean negated. TypeError for floating point."""
    if x.dtype.kind not in "bui":
        raise TypeMismatch(f"bitwise_not: {x.dtype.name} is not a bool or an integer dtype")
    return _NOT(x)


def _infer_cast(x: Meta, *, dtype: DType) -> Meta:
    return x.fresh(dtype=dtype)


def _infer_clone(x: Meta) -> Meta:
    return x.fresh()


# A cast from float to float is differentiable. A cast to or from integers ends the gradient, as
# results that are not floating point never require one.
CAST = Op(
    "cast",
    infer=_infer_cast,
    grads=(rule(lambda c, g: g.to(c.inputs[0].dtype)),),
    blocks=(0,),
    complex=True,
    batch="same",
)
COPY = Op(
    "copy",
    infer=_infer_clone,
    grads=(rule(lambda c, g: g),),
    blocks=(0,),
    complex=True,
    batch="same",
)


@public
@method()
def clone(x: Tensor) -> Tensor:
    """A contiguous copy in new memory; gradients pass through."""
    return COPY(x)


@public
@method()
def contiguous(x: Tensor) -> Tensor:
    """`x` itself if its elements lie row-major without gaps, else a copy."""
    return x if x.layout.is_contiguous else COPY(x)


@public
def cast(x: Tensor, dtype: DType) -> Tensor:
    """`x` with its elements converted to `dtype`; gradients pass between floating dtypes.

    Floats are truncated to integers; those out of range become the nearest integer that fits, and
    nan becomes 0. Integers wrap around. To bool: whether the element is not zero. Quantized blocks
    convert to floating dtypes only, and `Tensor.to` makes them, not this op: TypeError.
    """
    if dtype.kind == "q" or (x.dtype.kind == "q" and not dtype.is_floating_point):
        hint = "; dequantize() it first" if x.dtype.kind == "q" else ""
        raise TypeMismatch(f"to: converting {x.dtype.name} to {dtype.name} is not supported{hint}")
    return CAST(x, dtype=dtype)

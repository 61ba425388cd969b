"""In-place forms: `x.exp_()` writes what `x.exp()` gives over x, and returns x."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import HOST
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.basis.dtype import bool_
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.ops.binary import WHERE
from rushlight.core.ops.common import TensorLike, alike, is_tensor
from rushlight.core.ops.declare import METHODS, PUBLIC, method
from rushlight.core.ops.inplace import copy_, ready, scaled_steps_
from rushlight.core.tensor import autograd
from rushlight.core.tensor.grad_mode import mode, needs_gradient

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

    def __getattr__(name: str) -> Any: ...  # the stub imports names that the loop below makes


@method()
def apply_(x: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """callable(element) written over each element, on cpu; slow. TypeError on other devices."""
    return map_(x, x, lambda a, _: callable(a))


@method()
def map_(x: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """callable(a, b) of each element and that of `tensor`, written over x; on cpu, slow.

    Raises TypeError for other devices, RuntimeError for a tensor that requires grad.
    """
    if x.device is not HOST:
        raise TypeError(f"map_: the tensor is on {x.device}; it takes tensors on cpu")
    if x.requires_grad:
        raise RuntimeError("map_: a Python function is not differentiated; use it under no_grad")
    left, right = (t.detach().numpy() for t in (x, tensor.expand(x.shape)))
    values = [callable(a.item(), b.item()) for a, b in zip(left.flat, right.flat, strict=True)]
    array = np.array(values, left.dtype).reshape(x.shape)
    with autograd.no_grad():
        return copy_(x, x.from_host(array, x.dtype))


NAMES = """
    abs acos asin atan bitwise_and bitwise_not bitwise_or bitwise_xor ceil cos cosh cumsum erf exp
    expm1 floor floor_divide log log10 log1p log2 logical_and logical_not logical_or logical_xor
    neg pow reciprocal relu remainder round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc
    absolute negative arcsin arccos arctan fix subtract multiply divide eq ne lt le gt ge
    exp2 erfc asinh acosh atanh arcsinh arccosh arctanh atan2 arctan2 sinc logit hypot xlogy
    deg2rad rad2deg frac sgn copysign fmod lerp addcmul addcdiv nan_to_num heaviside true_divide
    ldexp addmm addmv addr baddbmm addbmm tril triu index_fill cumprod masked_fill
    scatter scatter_add index_add clip clamp_min clamp_max gcd lcm index_copy index_put
    lgamma digamma igamma igammac polygamma mvlgamma erfinv i0
    nextafter renorm conj_physical scatter_reduce index_reduce arctan2 greater
    greater_equal less less_equal not_equal clip
    masked_scatter put bitwise_left_shift bitwise_right_shift
"""


for _file in ("creation", "pointwise", "cumulative", "diagonals", "indexing", "linalg.blas",
              "linalg.norms", "complex", "special.aliases", "special.gamma", "special.errors",
              "special.bessel", "views"):  # fmt: skip
    import_module(f"rushlight.core.functional.{_file}")  # they declare what is named above


import_module("rushlight.core.ops")


def _inplace(name: str) -> Callable[..., Any]:
    fn = METHODS[name]
    row = getattr(fn, "row", None)
    count = 0 if row is None else ELEMENTWISE[row.name].arity - 1

    @wraps(fn)
    def write(x: Tensor, *args: Any, **options: Any) -> Tensor:
        if row is not None and not options and len(args) == count and x.dtype.kind == "f":
            others = [value for other in args if (value := ready(x, other)) is not None]
            if len(others) == count and not (mode.dtypes or needs_gradient(x, *others)):
                return row.inplace(x, *others)  # type: ignore[no-any-return]
        # A gradient rule may need x as it was.
        out: Tensor = fn(x.clone() if needs_gradient(x) else x, *args, **options)
        if out.shape != x.shape:
            raise ShapeError(
                f"{name}_: the result {out.shape} does not fit in place into {x.shape}"
            )
        if out.dtype.category > x.dtype.category or (
            name in ("abs", "absolute") and x.dtype.is_complex
        ):
            raise TypeMismatch(
                f"{name}_: the result, {out.dtype.name}, does not fit in place into {x.dtype.name}"
            )
        return copy_(x, out)

    write.__name__ = write.__qualname__ = f"{name}_"
    write.__module__ = __name__
    write.__doc__ = f"`{name}` in place: its result written over `x`, which is returned."
    return write


@method()
def lerp_(x: Tensor, end: Tensor, weight: TensorLike) -> Tensor:
    """`lerp` in place: x + weight (end - x) written over `x`, which is returned.

    Raises ShapeError for shapes that do not broadcast.
    """
    if ready(x, end) is end:
        written: Tensor | None = scaled_steps_(x, "sub", end, x, weight)
        if written is not None:
            return written
    return _LERP(x, end, weight)  # type: ignore[no-any-return]


def _scaled(name: str, first: str) -> Callable[..., Tensor]:
    """`addcmul_` or `addcdiv_`; first: what becomes of the two tensors before they are scaled."""
    otherwise, sign = _inplace(name), {"mul": "*", "div": "/"}[first]

    def write(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
        if ready(x, tensor1) is tensor1 and ready(x, tensor2) is tensor2:
            written: Tensor | None = scaled_steps_(x, first, tensor1, tensor2, value)
            if written is not None:
                return written
        return otherwise(x, tensor1, tensor2, value=value)  # type: ignore[no-any-return]

    write.__name__ = write.__qualname__ = f"{name}_"
    write.__doc__ = (
        f"`{name}` in place: x + value * tensor1 {sign} tensor2 over `x`, which is returned.\n\n"
        "    Raises ShapeError for shapes that do not broadcast, TypeError for integers."
    )
    return method()(write)


addcmul_, addcdiv_ = _scaled("addcmul", "mul"), _scaled("addcdiv", "div")


@method()
def masked_fill_(x: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """`masked_fill` in place: `value` written over `x` where `mask` holds; `x` is returned.

    `mask` is bool. Raises ShapeError for shapes that do not broadcast.
    """
    filled = ready(x, value) if x.dtype.kind == "f" and not is_tensor(value) else None
    if filled is not None and is_tensor(mask) and mask.dtype is bool_ and alike(mask, filled, x):
        if not needs_gradient(x):
            written: Tensor | None = WHERE.over(x, mask, filled, x)
            return copy_(x, WHERE(mask, filled, x)) if written is None else written
    return _MASKED_FILL(x, mask, value)  # type: ignore[no-any-return]


_LERP, _MASKED_FILL = _inplace("lerp"), _inplace("masked_fill")
for _name in NAMES.split():
    if f"{_name}_" not in METHODS:
        globals()[f"{_name}_"] = method(f"{_name}_")(_inplace(_name))


# torch has these as functions too.
FUNCTIONS = """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh atan
    atanh ceil clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1
    fix floor frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit nan_to_num neg negative
    rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy
"""


for _name in FUNCTIONS.split():
    if f"{_name}_" not in PUBLIC:
        PUBLIC[f"{_name}_"] = METHODS[f"{_name}_"]


def _operator(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as an operator such as `+=`: with an array it makes a new tensor, as in torch."""

    @wraps(fn)
    def operate(x: Tensor, other: Any) -> Tensor:
        return NotImplemented if isinstance(other, np.ndarray) else fn(x, other)

    return operate


for _name, _named in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}.items():  # fmt: skip
    method(f"__i{_name}__")(_operator(METHODS[f"{_named}_"]))

"""In-place ops: they overwrite and return their first argument, as torch's underscore ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.backends import special
from rushlight.core.backends.elementwise import elementwise
from rushlight.core.basis.dtype import DType, bool_, of_scalar, result_type
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.jit import capture
from rushlight.core.ops.binary import DIV, div
from rushlight.core.ops.common import (
    TensorLike,
    beside_others,
    constant,
    fitted,
    is_tensor,
    modular,
    numbers,
    repeated,
)
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.subscript import ASSIGN, whole
from rushlight.core.tensor import interpreter_stack
from rushlight.core.tensor.grad_mode import needs_gradient
from rushlight.core.tensor.op import REGISTRY, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _value(name: str, x: Tensor, other: TensorLike) -> Tensor:
    """`other` in the dtype and shape of `x`; TypeError where torch refuses the conversion."""
    (number,) = numbers(name, (other,))
    if not is_tensor(number):
        if of_scalar(number).category > x.dtype.category:  # type: ignore[arg-type]
            raise TypeMismatch(f"{name}: {number} does not fit in place into {x.dtype.name}")
        fitting = modular(number, x.dtype)  # type: ignore[arg-type]
        return constant(fitting, x.dtype, x.device).expand(*x.shape)
    value: Tensor = beside_others(number, x.device)  # type: ignore[arg-type]
    if value.dtype.category > x.dtype.category:
        raise TypeMismatch(f"{name}: {value.dtype.name} does not fit in place into {x.dtype.name}")
    try:
        return value.to(x.dtype).expand(*x.shape)
    except ValueError:
        raise ShapeError(f"{name}: {value.shape} does not expand to {x.shape}") from None


def ready(x: Tensor, other: Any) -> Tensor | None:
    """`other` as most writes over `x` have it: a tensor of its kind, or a number for floats."""
    kind = x.dtype.kind
    if other.__class__ is float or other.__class__ is int:
        if kind != "f":
            return None
        return repeated(other, x.dtype, x.storage.device, x.layout.shape)
    if not is_tensor(other) or other.dtype is not x.dtype or kind == "q":
        return None
    same = other.layout.shape == x.layout.shape and other.storage.device is x.storage.device
    return other if same else None


@public
@method()
def copy_(x: Tensor, source: Tensor) -> Tensor:
    """Write the elements of `source`, converted and broadcast, over `x`.

    RuntimeError for a tensor on the meta device, which would lose the values.
    """
    if x.device.type == "meta" and source.device is not x.device:
        raise RuntimeError(
            f"copy_: the tensor of shape {x.shape} is on the meta device and has no memory; call "
            "init_() on its module, or load weights into it, first"
        )
    shape = x.layout.shape
    if source.dtype is x.dtype and source.storage.device is x.storage.device:
        value = source
    else:
        value = source.to(dtype=x.dtype, device=x.device)
    if value.layout.shape != shape:
        value = value.expand(*shape)
    return ASSIGN.inplace(x, value, **whole(shape))


@public
@method()
def fill_(x: Tensor, value: TensorLike) -> Tensor:
    """Write one value, a number or a 0-d tensor, over all of `x`."""
    if (value.__class__ is float or value.__class__ is int) and -448 <= value <= 448:
        if x.dtype.kind == "f":  # every dtype of floats holds it: see `fitted`
            shape = x.layout.shape
            return ASSIGN.inplace(x, repeated(value, x.dtype, x.device, shape), **whole(shape))
    if is_tensor(value):
        if value.ndim:  # type: ignore[union-attr]
            raise ShapeError(f"fill_: value is {value.shape}; it must be 0-d")  # type: ignore[union-attr]
        return copy_(x, value)  # type: ignore[arg-type]
    (plain,) = numbers("fill_", (value,))
    fitting = fitted("fill_", plain, x.dtype)  # type: ignore[arg-type]
    shape = x.layout.shape
    return ASSIGN.inplace(x, repeated(fitting, x.dtype, x.device, shape), **whole(shape))


@public
@method()
def zero_(x: Tensor) -> Tensor:
    """Write zeros over all of `x`."""
    return fill_(x, 0)


elementwise("add_scaled", 3, special.add_scaled, "a + b * c")
ADD_SCALED = Op(
    "add_scaled",
    infer=lambda x, y, scale: x.fresh(),
    grads=(
        rule(lambda c, g: g),
        rule(lambda c, g, scale: g * scale, 2),
        rule(lambda c, g, y: g * y, 1),
    ),
    batch="same",
)
ADD = REGISTRY["add"]


def add_scaled_(x: Tensor, y: Tensor, scale: Any) -> Tensor | None:
    """x += scale * y for floats of one shape, in one pass; None where other code has to decide.

    That is for a gradient, for what `jit` captures, which joins ops by itself, and for a scale that
    is no plain number.
    """
    plain = scale.__class__ is float or scale.__class__ is int
    if not plain or x.dtype.kind != "f" or capture.active or needs_gradient(x, y):
        return None
    factor = repeated(scale, x.dtype, x.storage.device, x.layout.shape)
    return ADD_SCALED.inplace(x, y, factor)


# Elementwise ops one after another: see `_chain` of the cpu device, which alone has it.
CHAIN = Op("chain", infer=lambda x, *others, steps: x.fresh(), differentiable=False, register=False)


def scaled_steps_(x: Tensor, first: str, a: Tensor, b: Tensor, scale: Any) -> Tensor | None:
    """x += scale * first(a, b) for floats of one shape; None where other code has to decide.

    first: "mul", "div" or "sub". One pass where the device has it, else two.
    """
    plain = scale.__class__ is float or scale.__class__ is int
    if not plain or x.dtype.kind != "f" or capture.active or needs_gradient(x, a, b):
        return None
    device = x.storage.device
    if interpreter_stack.active or not device.backend.supports("chain"):
        return add_scaled_(x, REGISTRY[first](a, b), scale)
    # Operands count from 1, which is x; ~0 is the first step's value.
    others, second = ((a,), 1) if b is x else ((a, b), 3)
    if scale == 1:
        return CHAIN.inplace(x, *others, steps=((first, 2, second), ("add", 1, ~0)))
    factor = repeated(scale, x.dtype, device, x.layout.shape)
    steps = (first, 2, second), ("mul", ~0, len(others) + 2), ("add", 1, ~1)
    return CHAIN.inplace(x, *others, factor, steps=steps)


def _write(op: Op, x: Tensor, other: TensorLike, alpha: float = 1) -> Tensor:
    """`op` of x and alpha * other, over x."""
    if alpha == 1 and (value := ready(x, other)) is not None:
        return op.inplace(x, value)
    if alpha != 1 and (value := ready(x, other)) is not None and op is not DIV:
        scale = alpha if op is ADD else -alpha
        if (written := add_scaled_(x, value, scale)) is not None:
            return written
    name = f"{op.name}_"
    value = _value(name, x, other)
    if isinstance(alpha, float) and x.dtype.kind not in "fc":
        raise TypeMismatch(f"{name}: alpha {alpha} does not fit in place into {x.dtype.name}")
    if is_tensor(other) and _ranked(x, other) is not x.dtype:  # type: ignore[arg-type]
        # Computed in the wider dtype and rounded once, as in torch.
        wide = _ranked(x, other)  # type: ignore[arg-type]
        value = beside_others(other, x.device).to(wide).expand(*x.shape)  # type: ignore[arg-type]
        return copy_(x, op(x.to(wide), value if alpha == 1 else value * alpha))
    return op.inplace(x, value if alpha == 1 else value * alpha)


def _ranked(x: Tensor, other: Tensor) -> DType:
    return result_type(*((t.dtype, 2 if t.ndim else 1) for t in (x, other)))


@public
@method()
def add_(x: Tensor, other: TensorLike, *, alpha: float = 1) -> Tensor:
    """x += alpha * other.

    `x` is returned. Raises ShapeError for a result of another shape, TypeError for one that x's
    dtype cannot hold.
    """
    return _write(REGISTRY["add"], x, other, alpha)


@public
@method()
def sub_(x: Tensor, other: TensorLike, *, alpha: float = 1) -> Tensor:
    """x -= alpha * other.

    `x` is returned. Raises ShapeError for a result of another shape, TypeError for one that x's
    dtype cannot hold.
    """
    if x.dtype is bool_:
        raise TypeMismatch("sub_: bool is not supported; use ^")
    return _write(REGISTRY["sub"], x, other, alpha)


@public
@method()
def mul_(x: Tensor, other: TensorLike) -> Tensor:
    """x *= other."""
    return _write(REGISTRY["mul"], x, other)


@public
@method()
def div_(x: Tensor, other: TensorLike, *, rounding_mode: str | None = None) -> Tensor:
    """x /= other; `x` must be floating point unless `rounding_mode` is "floor" or "trunc".

    `x` is returned. Raises ShapeError for a result of another shape, TypeError for integers.
    """
    if rounding_mode is not None:
        return copy_(x, div(x, _value("div_", x, other), rounding_mode=rounding_mode))
    if x.dtype.kind not in "fc":
        raise TypeMismatch(f"div_: the quotient does not fit in place into {x.dtype.name}")
    return _write(DIV, x, other)

"""custom_op: elementwise ops from a NumPy function, a WGSL function and a gradient rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends.elementwise import ELEMENTWISE, elementwise
from rushlight.core.basis.dtype import float32
from rushlight.core.ops.common import TensorLike, numbers, operands
from rushlight.core.ops.declare import public
from rushlight.core.tensor.op import Context, Meta, Op, Rule
from rushlight.wgsl_kernels import define

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

_LETTERS = "abc"
Gradient = Callable[..., "Tensor | Sequence[Tensor | None]"]


@public
def custom_op(
    name: str, *, numpy: Callable[..., Any], wgsl: str, gradient: Gradient | None = None
) -> Callable[..., Tensor]:
    """An elementwise op of one to three inputs that runs on every device.

    name: a new WGSL identifier. numpy: takes arrays of one shape and floating dtype and returns
    one. wgsl: source that defines `fn NAME(a: f32, ...) -> f32` and the functions that it calls.
    gradient: takes the gradient of the result, the inputs and the result, all tensors, and returns
    the gradient of each input (None for none), written in ops. Without it results need no gradient.

    The op takes tensors and numbers, broadcasts them to one shape and computes in float32 (on cpu
    also in float64). ValueError if `name` is in use or `wgsl` does not define it.
    """
    signature = re.search(rf"\bfn\s+{re.escape(name)}\s*\(([^)]*)\)\s*->\s*f32\b", wgsl)
    if not name.isidentifier() or signature is None:
        raise ValueError(
            f"custom_op: the WGSL does not define `fn {name}(a: f32, ...) -> f32`, the function of "
            "the op"
        )
    arity = len([p for p in signature[1].split(",") if p.strip()])
    if not 1 <= arity <= len(_LETTERS):
        raise ValueError(f"custom_op: {name} takes {arity} values; supported: one to three")
    label = f"custom {name}"
    if name in ELEMENTWISE or label in ELEMENTWISE:
        raise ValueError(f"custom_op: op {name!r} already exists")
    define(wgsl)

    def kernel(*arrays: Any, out: Any) -> None:
        np.copyto(out, numpy(*arrays), casting="same_kind")

    elementwise(label, arity, kernel, f"{name}({', '.join(_LETTERS[:arity])})")
    op = Op(
        label,
        infer=_infer,
        joint=None if gradient is None else _joint(name, gradient, arity),
        differentiable=gradient is not None,
        register=False,
    )

    def call(*inputs: TensorLike) -> Tensor:
        if len(inputs) != arity:
            raise TypeError(f"{name}: takes {arity} operands, got {len(inputs)}")
        inputs_given = numbers(name, inputs)
        floats = [
            v
            if isinstance(v, (bool, int, float, complex)) or v.dtype.is_floating_point
            else v.to(float32)
            for v in inputs_given
        ]
        tensors = operands(name, *floats)
        return op(*tensors)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The custom op {name} of {arity} operands, broadcast to one shape."
    return call


def _infer(*inputs: Meta) -> Meta:
    return inputs[0].fresh()


def _joint(name: str, gradient: Gradient, arity: int) -> Rule:
    def rule(c: Context, grad: Tensor, *saved: Tensor) -> tuple[Tensor | None, ...]:
        gradients = gradient(grad, *saved)
        result = tuple(gradients) if isinstance(gradients, (tuple, list)) else (gradients,)
        if len(result) != arity:
            raise ValueError(
                f"{name}: its gradient rule returned {len(result)} gradients for {arity} inputs"
            )
        return result

    return Rule(rule, (*range(arity), "out"))

"""Functions whose value comes from a series and whose gradient from a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import HOST, Device
from rushlight.core.basis.dtype import float64
from rushlight.core.ops.common import floating, operands
from rushlight.core.ops.reduce import widened
from rushlight.core.tensor import autograd, interpreter_stack
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Slope = Callable[..., "Tensor"] | None


def _infer(x: Meta, *others: Meta, **attrs: Any) -> Meta:
    return x.fresh()


def _gradients(
    c: Context, g: Tensor, x: Tensor, y: Tensor | None, out: Tensor
) -> tuple[Tensor | None, ...]:
    inputs = (x,) if y is None else (x, y)
    gradients: list[Tensor | None] = []
    for slope, needed in zip(c.attrs["slopes"], c.needs, strict=False):
        if needed and slope is None:
            raise RuntimeError("this function has no gradient to one of its inputs; detach() it")
        gradients.append(g * slope(*inputs, out) if needed else None)
    return tuple(gradients)


class _Derived(Op):
    """No backend runs it: `derived` records it by hand."""

    def __call__(
        self, *inputs: Tensor | None, device: Device | None = None, **attrs: Any
    ) -> Tensor:
        """`derived` again, of what a batch holds."""
        tensors = [t for t in inputs if t is not None]
        result = derived(
            attrs["name"], attrs["value"], attrs["slopes"], *tensors, wide=attrs["wide"]
        )
        return result


DERIVED = _Derived(
    "derived", infer=_infer, joint=rule(_gradients, 0, 1, "out"), register=False, batch="same"
)


def derived(
    name: str,
    value: Callable[..., Tensor],
    slopes: Sequence[Slope],
    *inputs: Any,
    wide: bool = True,
) -> Tensor:
    """value(*inputs) of one or two tensors or numbers, broadcast; integers become float32.

    slopes: for each input a function of (*inputs, out), written in ops, that gives the derivative;
    None where there is none. wide: the host computes in float64, other devices in float32.
    """
    tensors = [floating(name, t) for t in (operands(name, *inputs) if inputs[1:] else inputs)]
    x = tensors[0]
    two = (x, tensors[1] if len(tensors) > 1 else None)
    slopes = (*slopes, None)
    if interpreter_stack.active and interpreter_stack.any_batched(two):
        attrs = {"name": name, "value": value, "slopes": slopes, "wide": wide}
        return interpreter_stack.handlers.run(DERIVED, two, attrs)
    with autograd.no_grad():
        parts = tensors
        if wide:
            parts = [t.to(float64) if t.device is HOST else widened(t) for t in tensors]
        out = value(*parts).to(x.dtype)
        out = out.clone() if out.is_view else out
    if autograd.is_grad_enabled():
        DERIVED.record(out, two, {"slopes": slopes})
    return out

"""Operations of training loops on all parameters: clipping gradients."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.core import ops
from rushlight.core.functional.pieces import stack
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Scale all gradients in place so that their total norm is at most `max_norm`.

    Returns the total norm before scaling (Pascanu et al., 2013). Nothing is read back.
    """
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p.grad for p in given if p.grad is not None]
    if not grads:
        return ops.zeros(())
    with autograd.no_grad():
        norms = stack([g.detach().norm(norm_type).float() for g in grads])
        total = norms.norm(norm_type)
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.detach().mul_(scale.to(g.dtype))
    return total


def clip_grad_value_(parameters: Iterable[Tensor] | Tensor, clip_value: float) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value], in place."""
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    with autograd.no_grad():
        for p in given:
            if p.grad is not None:
                p.grad.detach().clamp_(-clip_value, clip_value)

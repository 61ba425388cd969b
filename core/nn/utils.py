"""What training loops do to all parameters at once."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.core import autograd, ops
from rushlight.core.tensor import Tensor


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Scale all gradients, in place, so that their norm together is at most `max_norm`.

    Gives that norm as it was before (Pascanu et al., 2013). Nothing is read back from the device.
    """
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p.grad for p in given if p.grad is not None]
    if not grads:
        return ops.zeros(())
    with autograd.no_grad():
        norms = ops.stack([g.detach().norm(norm_type).float() for g in grads])
        total = norms.norm(norm_type)
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.detach().mul_(scale.to(g.dtype))
    return total

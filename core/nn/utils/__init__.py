"""Operations on all parameters: clipping gradients, vectors of them; parametrizations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.core import ops
from rushlight.core.functional.joining import stack
from rushlight.core.jit import capture
from rushlight.core.nn.module import Module, layers_on
from rushlight.core.nn.utils import parametrizations, parametrize, prune, rnn, stateless
from rushlight.core.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from rushlight.core.nn.utils.parametrizations import old_spectral_norm as spectral_norm
from rushlight.core.nn.utils.parametrizations import old_weight_norm as weight_norm
from rushlight.core.nn.utils.parametrizations import (
    remove_spectral_norm,
    remove_weight_norm,
)
from rushlight.core.ops.join import cat
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "get_total_norm", "parameters_to_vector", "parametrizations", "parametrize", "prune",
    "remove_spectral_norm",
    "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless", "vector_to_parameters",
    "weight_norm",
]  # fmt: skip


def get_total_norm(
    tensors: Iterable[Tensor] | Tensor,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together. error_if_nonfinite reads it; RuntimeError if it is not.

    `tensors` is one or several, `norm_type` the order, inf for the largest. `foreach` changes
    nothing.
    """
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not listed:
        return ops.zeros(())
    with autograd.no_grad():
        total: Tensor = _norms(listed, float(norm_type))
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(f"the total norm of order {norm_type} of the gradients is not finite")
    return total


def clip_grads_with_norm_(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale all gradients by max_norm / total_norm where that is below one.

    `parameters` is one or several; those without a gradient are left out. `max_norm` is a number,
    `total_norm` a tensor of one. `foreach` changes nothing. Raises nothing of its own.
    """
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    with autograd.no_grad():
        _scale([p.grad for p in listed if p.grad is not None], total_norm, tensor(max_norm))


def _scaled(grads: list[Tensor], total: Tensor, most: Tensor) -> None:
    scale = (most.to(total.device) / (total + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.detach().mul_(scale.to(dtype=grad.dtype, device=grad.device))


def _norm(grads: list[Tensor], order: float) -> Tensor:
    first = grads[0].device
    norms = [t.detach().norm(order).float().to(first) for t in grads]
    return stack(norms).norm(order)


def _limited(grads: list[Tensor], most: Tensor) -> None:
    for grad in grads:
        bound = most.to(dtype=grad.dtype, device=grad.device)
        grad.detach().copy_(grad.detach().clamp(-bound, bound))


# jit captures them: many small kernels become one message.
_scale, _norms = capture.replayed(_scaled), capture.replayed(_norm)
_limit = capture.replayed(_limited)


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients in place so that their total norm is at most `max_norm`.

    Returns the total norm before scaling (Pascanu et al., 2013). Nothing is read back unless
    error_if_nonfinite is set.

    `parameters` is one or several; those without a gradient are left out. `norm_type` is the order,
    inf for the largest. `foreach` changes nothing. Raises RuntimeError where that is set and the
    norm is not finite.
    """
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p.grad for p in listed if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    if grads:
        clip_grads_with_norm_(listed, max_norm, total)
    return total


clip_grad_norm = clip_grad_norm_  # torch's old name


def clip_grad_value_(
    parameters: Iterable[Tensor] | Tensor, clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value], in place.

    `parameters` is one or several; those without a gradient are left out. `clip_value` is a number.
    `foreach` changes nothing. Raises nothing of its own.
    """
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    with autograd.no_grad():
        if grads := [p.grad for p in listed if p.grad is not None]:
            _limit(grads, tensor(float(clip_value)))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters in one vector, with history."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of a vector over the parameters, in order. ValueError for a wrong size."""
    listed = list(parameters)
    count = sum(p.numel() for p in listed)
    if vec.shape != (count,):
        raise ValueError(f"vector_to_parameters: vec is {vec.shape}; it must be ({count},)")
    with autograd.no_grad():
        for p, piece in zip(listed, vec.detach().split([p.numel() for p in listed]), strict=True):
            p.copy_(piece.reshape(p.shape))


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have memory but no particular values.

    `module_cls` is called with `args` and `kwargs`; device among these says where the memory is.
    Raises what the class raises.
    """
    device = kwargs.pop("device", "cpu")
    with layers_on("meta"):
        return module_cls(*args, **kwargs).to_empty(device=device)

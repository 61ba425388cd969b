"""Tangents of a computation's results, under the names of torch.autograd.forward_ad.

A dual tensor is recorded like a leaf that needs a gradient; `unpack_dual` goes through the graph
twice, as `rl.func.jvp` does.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from rushlight.core.func.scope import Scope, Tangents
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """The value of a dual tensor, and its tangent; None where it depends on no dual tensor."""

    primal: Tensor
    tangent: Tensor | None


class _Local(threading.local):
    scope: Scope | None = None
    tangents: list[Tensor]


_local = _Local()


def enter_dual_level() -> int:
    """Begin a level, in which dual tensors can be made; RuntimeError within another."""
    if _local.scope is not None:
        raise RuntimeError("forward_ad: levels cannot be nested; use rl.func.jvp")
    _local.scope, _local.tangents = Scope("make_dual"), []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level; its tangents are gone."""
    _current("exit_dual_level", level)
    _local.scope, _local.tangents = None, []


class dual_level:  # noqa: N801  torch's name
    """Context manager: dual tensors can be made and unpacked within."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def _current(name: str, level: int | None) -> Scope:
    if _local.scope is None or level not in (None, 0):
        raise RuntimeError(f"{name}: there is no such level; use it within forward_ad.dual_level()")
    return _local.scope


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with the values of `tensor`, and a tangent of its shape and dtype.

    `level` is None, or the present one. Raises ValueError for a dtype that is not floating,
    RuntimeError for another shape or dtype and outside of `dual_level`.
    """
    scope = _current("make_dual", level)
    if tensor.dtype.kind not in "fc":
        raise ValueError(f"make_dual: {tensor.dtype.name} is not a floating dtype")
    if (tangent.shape, tangent.dtype) != (tensor.shape, tensor.dtype):
        raise RuntimeError(
            f"make_dual: the tangent is {tangent.dtype.name} of shape {tuple(tangent.shape)}, the "
            f"tensor {tensor.dtype.name} of {tuple(tensor.shape)}"
        )
    (dual,) = scope.enter((tensor,))
    _local.tangents.append(tangent)
    return dual  # type: ignore[no-any-return]


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of what was computed from dual tensors."""
    if level is None and _local.scope is None:
        return UnpackedDualTensor(tensor, None)
    scope = _current("unpack_dual", level)
    tangents: Any = Tangents(scope, [tensor])(_local.tangents)
    return UnpackedDualTensor(scope.settled(tensor), tangents[0])

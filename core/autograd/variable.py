"""torch.autograd.Variable: the older name of a tensor."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor.tensor import Tensor

__all__ = ["Variable"]


class _Tensors(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=_Tensors):
    """`Variable(x, requires_grad=False)` is the tensor x; every tensor is a Variable.

    volatile is of the oldest programs and changes nothing.

    `data` is x, a tensor; it raises AttributeError for other values.
    """

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        """x as a tensor of its own history that shares its memory."""
        variable = data.detach()
        return variable.requires_grad_() if requires_grad else variable

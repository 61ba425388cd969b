"""Layers that take a size from their first input, and are the plain layer from then on."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from rushlight.core.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from rushlight.core.nn.linear import Linear
from rushlight.core.nn.module import Module
from rushlight.core.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # the layers that the loops below make


__all__: list[str] = []


class _Lazy(Module):
    _plain: type[Module]
    _dim: int  # of the input, whose size is the first argument of the plain layer

    def __init__(self, *args: Any, **options: Any) -> None:
        self._given = args, options

    def has_uninitialized_params(self) -> bool:
        """True: parameters are made at the first call; make an optimizer after it."""
        return True

    def forward(self, input: Tensor, *rest: Any) -> Tensor:
        """Become the plain layer, on the device and in the dtype of `input`, and run it."""
        (args, options), size = self._given, input.shape[self._dim]
        del self._given
        self.__class__ = self._plain  # type: ignore[assignment]
        place: dict[str, Any] = {"device": input.device, "dtype": input.dtype}
        self.__init__(size, *args, **place | options)  # type: ignore[misc]
        out: Tensor = self.forward(input, *rest)
        return out

    def extra_repr(self) -> str:
        """That the sizes are not known yet."""
        return "sizes follow from the first input"


def _declare(plain: type[Module], dim: int) -> None:
    name = f"Lazy{plain.__name__}"
    doc = f"`{plain.__name__}` without its first argument, which is dim {dim} of the first input."
    doc += f" The layer says of itself:\n\n{plain.__doc__ or ''}"
    takes = list(inspect.signature(plain).parameters.values())[1:]
    fields = {
        "_plain": plain,
        "_dim": dim,
        "__doc__": doc,
        "__module__": __name__,
        "__signature__": inspect.Signature(takes),
    }
    globals()[name] = type(name, (_Lazy, plain), fields)
    __all__.append(name)


_declare(Linear, -1)
for _rank, _layers in enumerate(
    ((Conv1d, ConvTranspose1d), (Conv2d, ConvTranspose2d), (Conv3d, ConvTranspose3d)), 1
):
    for _layer in _layers:
        _declare(_layer, -1 - _rank)
for _norm in (BatchNorm1d, BatchNorm2d, BatchNorm3d):
    _declare(_norm, 1)

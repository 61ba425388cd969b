"""torch.storage: the memory of a tensor as a flat sequence; classes by dtype for isinstance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.tensor.methods import UntypedStorage
from rushlight.core.tensor.tensor import Tensor

__all__ = ["TypedStorage", "UntypedStorage"]


class TypedStorage(UntypedStorage):
    """The elements of a tensor's memory, from its first one on."""

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._tensor.dtype

    def untyped(self) -> UntypedStorage:
        """The same as bytes."""
        return UntypedStorage(self._tensor)

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self._tensor.dtype.itemsize

    __len__ = size

    def _flat(self) -> Tensor:
        return self._tensor.detach().as_strided((len(self),), (1,), 0)

    def tolist(self) -> list[Any]:
        """The elements."""
        elements: list[Any] = self._flat().tolist()
        return elements

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        return f"TypedStorage({self.tolist()}, dtype={self.dtype})"

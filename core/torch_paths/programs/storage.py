"""torch.storage: the memory of a tensor as a flat sequence; classes by dtype for isinstance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.basis.dtype import DType
from rushlight.core.tensor.tensor import Tensor

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """The bytes of a tensor's memory."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._tensor.device

    def nbytes(self) -> int:
        """Its size in bytes."""
        return int(self._tensor.storage.nbytes)

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """A number that is equal for tensors of the same memory."""
        return id(self._tensor.storage)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.data_ptr() == self.data_ptr()

    def __hash__(self) -> int:
        return self.data_ptr()


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
        found: list[Any] = self._flat().tolist()
        return found

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        return f"TypedStorage({self.tolist()}, dtype={self.dtype})"

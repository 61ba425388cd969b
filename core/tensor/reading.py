"""Reading a tensor's values as NumPy arrays, lists and numbers, blocking or async."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import Bytes, Device
from rushlight.core.backends.readback import Readback
from rushlight.core.basis import codec
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import ShapeError
from rushlight.core.jit import capture
from rushlight.core.tensor.methods import Methods


class Reading(Methods):
    """The methods that read values from the device.

    On an asynchronous device the plain form blocks until the values are there. The `_async`
    form lets other coroutines run.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # attributes that Tensor defines
        requires_grad: bool
        storage: Any

        @property
        def buffer(self) -> Any: ...
        @property
        def device(self) -> Device: ...
        def to(self, *args: Any, dtype: Any = None, device: Any = None) -> Any: ...
        def from_host(self, values: Any, dtype: DType | None = None) -> Any: ...

    def host_values(self) -> npt.NDArray[Any]:
        """The elements as a NumPy array; bfloat16 and float8 as float32. May share memory."""
        self._check_plain()
        return self._decoded(self.stored())

    async def host_values_async(self) -> npt.NDArray[Any]:
        """`host_values()` without blocking."""
        self._check_plain()
        return self._decoded(await self._stored_async())

    def _check_plain(self) -> None:
        if self.dtype.kind == "q":
            raise TypeError(f"{self.dtype.name} is quantized; dequantize() it, or use raw_bytes()")

    def _decoded(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return codec.decode(self.dtype, stored) if self.dtype.encoded else stored

    def stored(self) -> npt.NDArray[Any]:
        """The stored bits as a NumPy array (blocks as rows of bytes). May share memory."""
        if capture.active:
            capture.values_read(self)  # type: ignore[arg-type]
        self.storage.lent = True
        return self._shaped(self.device.backend.download(self.buffer, *self._span(), self.dtype))

    async def _stored_async(self) -> npt.NDArray[Any]:
        if capture.active:
            capture.values_read(self)  # type: ignore[arg-type]
        self.storage.lent = True
        backend = self.device.backend
        return self._shaped(await backend.download_async(self.buffer, *self._span(), self.dtype))

    def readback(self) -> Readback[npt.NDArray[Any]]:
        """Start reading `host_values()` as they are now; the Readback waits for them.

        Later ops do not wait for the read. TypeError for quantized blocks.
        """
        self._check_plain()
        if capture.active:
            capture.values_read(self)  # type: ignore[arg-type]
        bytes_read = self.device.backend.begin(self.buffer, *self._span(), self.dtype)
        return bytes_read.then(lambda data: self._decoded(self._shaped(data)))

    def _span(self) -> tuple[int, int]:
        """The first byte of the storage that holds elements, and one past the last."""
        first, last = self.layout.extent
        if self.dtype.kind == "q":
            return self.dtype.nbytes(first), self.dtype.nbytes(last)
        return first * self.dtype.itemsize, last * self.dtype.itemsize

    def _shaped(self, data: Bytes) -> npt.NDArray[Any]:
        """The elements in the bytes of `_span`."""
        return codec.stored_view(self.dtype, self.layout, data, 0)

    def numpy(self, *, force: bool = False) -> npt.NDArray[Any]:
        """A NumPy array of the elements; on cpu it shares memory with the tensor.

        force: also of a tensor that requires grad. RuntimeError for one without it; TypeError for
        bfloat16 and float8.
        """
        self._check_numpy(force)
        return self.stored()

    async def numpy_async(self) -> npt.NDArray[Any]:
        """`numpy()` without blocking: it works in every browser."""
        self._check_numpy()
        return await self._stored_async()

    def _check_numpy(self, force: bool = False) -> None:
        if self.requires_grad and not force:
            raise RuntimeError("numpy: the tensor requires grad; use detach().numpy()")
        if self.dtype.encoded:
            raise TypeError(f"numpy: NumPy has no {self.dtype.name}; use float().numpy()")
        if self.dtype.kind == "q":
            raise TypeError(f"numpy: {self.dtype.name} is quantized; use dequantize() first")

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number for a 0-d tensor."""
        return self.host_values().tolist()

    async def tolist_async(self) -> Any:
        """`tolist()` without blocking."""
        return (await self.host_values_async()).tolist()

    def item(self) -> Any:
        """The only element as a Python number; ValueError for any other number of elements."""
        self._check_one()
        return self.host_values().reshape(()).item()

    async def item_async(self) -> Any:
        """`item()` without blocking."""
        self._check_one()
        return (await self.host_values_async()).reshape(()).item()

    def _check_one(self) -> None:
        if self.numel() != 1:
            raise ShapeError(f"item: shape {self.shape} does not hold exactly one element")

    def raw_bytes(self) -> bytes:
        """The stored bytes of the elements, row-major."""
        return np.ascontiguousarray(self.stored()).tobytes()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"the truth of shape {self.shape} is not one value; use any(), all() or item()"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __format__(self, spec: str) -> str:
        # As torch: a 0-d tensor is its number; of others only the tensor as it is printed.
        if self.ndim == 0 and self.device.type != "meta":
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "ui":
            raise TypeError(f"a {self.dtype.name} tensor is not an index")
        return int(self.item())

"""The protocols by which other libraries take a tensor: NumPy's, DLPack's, Python's buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import HOST
from rushlight.core.basis.dtype import as_dtype
from rushlight.core.jit import capture
from rushlight.core.tensor.exchange import dlpack
from rushlight.core.tensor.reading import Reading

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class Exchange(Reading):
    """`np.asarray(t)`, `np.from_dlpack(t)`, `torch.from_dlpack(t)` and `memoryview(t)`.

    They share the memory of a tensor on cpu; they refuse a tensor that requires grad.
    """

    __slots__ = ()
    _namespace: Any = None  # core/array_api/ enters itself

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard; ValueError for a version later than 2024.12."""
        if api_version not in (None, *_VERSIONS):
            raise ValueError(
                f"__array_namespace__: no version {api_version!r}; "
                f"supported: {', '.join(_VERSIONS)}"
            )
        return self._namespace

    def to_device(self, device: Any, /, *, stream: None = None) -> Any:
        """`to(device)`, under the array API's name."""
        return self.to(device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"a {self.dtype.name} tensor is not {dtype} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(
        self, array: npt.NDArray[Any], context: Any = None, return_scalar: bool = False
    ) -> Any:
        # What a function of NumPy made of this tensor is a tensor again, as in torch.
        return self.from_host(array, as_dtype(array.dtype))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # Without it NumPy calls __array__, which copies or says why it cannot.
        if self.device is not HOST or self.dtype.encoded or self.dtype.kind == "q":
            raise AttributeError(f"a {self.dtype.name} tensor on {self.device} has no address")
        array = self.numpy()
        if not array.size:
            return array.__array_interface__
        # The bytes and not their address: they live on where the tensor is set to other memory.
        first, last = self._span()
        data = self.device.backend.download(self.buffer, first, last, self.dtype)
        return {**array.__array_interface__, "data": data, "strides": array.strides}

    def __buffer__(self, flags: int) -> memoryview:
        # Python 3.12 and later call this for memoryview(t); before, np.asarray(t) has a buffer.
        if capture.capturing():
            # NumPy drops this error and asks for __array_interface__, whose CaptureError it passes.
            raise BufferError("memoryview: a captured function cannot read the values of a tensor")
        return self.numpy().data

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the memory, of any dtype but quantized blocks.

        max_version: the consumer's version; without it the capsule is of 0.8. dl_device: (1, 0),
        which copies a tensor of another device. copy: True for a copy, False for none. BufferError
        for a tensor that requires grad and where copy=False cannot be.
        """
        if self.requires_grad:
            raise BufferError("__dlpack__: the tensor requires grad; use detach()")
        if self.dtype.kind == "q":
            raise BufferError(f"__dlpack__: {self.dtype.name} is quantized; use dequantize() first")
        if stream not in (None, -1):
            raise ValueError(f"__dlpack__: stream is {stream}; memory of the process has none")
        if dl_device is None:
            self.__dlpack_device__()
        elif tuple(dl_device) != (1, 0):
            raise BufferError(f"__dlpack__: dl_device is {tuple(dl_device)}; supported: (1, 0)")
        elif copy is False and self.device is not HOST:
            raise BufferError(f"__dlpack__: {self.device} is not cpu without a copy")
        array = self.stored()
        return dlpack.exported(array.copy() if copy else array, self.dtype, max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.device is not HOST:
            raise BufferError(
                f"DLPack of a tensor on {self.device} is not supported; use .to('cpu')"
            )
        return 1, 0

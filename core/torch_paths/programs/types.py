"""torch.types: what functions take, for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from rushlight.core.backends import Device as _Device
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Size
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.torch_paths.programs.storage import TypedStorage, UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = _Device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage: TypeAlias = UntypedStorage | TypedStorage
PySymType: TypeAlias = int | float | bool
SymInt, SymFloat, SymBool = builtins.int, builtins.float, builtins.bool
_bool, _int, _float, _complex = builtins.bool, builtins.int, builtins.float, builtins.complex
_dtype, _device = DType, _Device
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize = _dispatchkey = _size
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge = _TensorOrTensors

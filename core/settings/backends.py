"""torch.backends: what programs ask and set of libraries that are not used here."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class _Library(ModuleType):
    """A library by name. What is set is kept, and changes nothing."""

    def __init__(self, name: str, available: bool = False, **flags: Any) -> None:
        super().__init__(name, f"The library {name}, which is not used here.")
        vars(self).update(flags, _available=available)

    def is_available(self) -> bool:
        """Whether the library is used."""
        return bool(self._available)

    def is_built(self) -> bool:
        """Whether the library is used."""
        return bool(self._available)

    def __repr__(self) -> str:
        return f"<{self.__name__}: {'used' if self._available else 'not used'}>"


cudnn: Any = _Library("cudnn", enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
cuda: Any = _Library("cuda", matmul=_Library("cuda.matmul", allow_tf32=False))
mps: Any = _Library("mps")
mkl: Any = _Library("mkl")
mkldnn: Any = _Library("mkldnn", enabled=False)
openmp: Any = _Library("openmp")

"""torch.backends: what programs ask and set of libraries that are not used here."""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType
from typing import Any

from rushlight.core.backends import HOST


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

    def version(self) -> None:
        """None: it is not used."""

    def flags(self, *args: Any, **options: Any) -> Any:
        """A context manager of settings, which change nothing."""
        return nullcontext()

    is_acceptable, set_flags, verbose = is_built, flags, flags

    def __repr__(self) -> str:
        return f"<{self.__name__}: {'used' if self._available else 'not used'}>"


def _accepted(*args: Any, **options: Any) -> Any:
    """Nothing to do; as a context manager too."""
    return nullcontext()


def _no(*args: Any, **options: Any) -> bool:
    """False: there is one kernel of attention."""
    return False


_SDP = ("flash", "mem_efficient", "math", "cudnn")
_attention: dict[str, Any] = {
    **{f"enable_{name}_sdp": _accepted for name in _SDP},
    **{f"{name}_sdp_enabled": (lambda: True) if name == "math" else _no for name in _SDP},
    "can_use_flash_attention": _no,
    "can_use_efficient_attention": _no,
    "can_use_cudnn_attention": _no,
    "is_flash_attention_available": _no,
    "sdp_kernel": _accepted,
    "preferred_linalg_library": _accepted,
    "preferred_blas_library": _accepted,
    "cufft_plan_cache": _Library("cuda.cufft_plan_cache"),
}
cudnn: Any = _Library("cudnn", enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
cuda: Any = _Library("cuda", matmul=_Library("cuda.matmul", allow_tf32=False), **_attention)
mps: Any = _Library("mps")
mkl: Any = _Library("mkl")
mkldnn: Any = _Library("mkldnn", enabled=False)
openmp: Any = _Library("openmp")
opt_einsum: Any = _Library("opt_einsum", enabled=False, strategy=None)
quantized: Any = _Library("quantized", engine="none", supported_engines=["none"])
mha: Any = _Library("mha", get_fastpath_enabled=_no, set_fastpath_enabled=_accepted)
cpu: Any = _Library("cpu", get_cpu_capability=lambda: str(HOST.info.get("kernels")))

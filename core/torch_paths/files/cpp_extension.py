"""torch.utils.cpp_extension: C++ and CUDA are not compiled; kernels are WGSL or Python here."""

from __future__ import annotations

from rushlight.core.settings.standins import refuse_all

CUDA_HOME = ROCM_HOME = SYCL_HOME = None


def is_ninja_available() -> bool:
    """False: nothing is compiled."""
    return False


globals().update(
    refuse_all(
        "utils.cpp_extension",
        "load load_inline CppExtension CUDAExtension SyclExtension "
        "BuildExtension include_paths library_paths verify_ninja_availability",
        "C++ and CUDA extensions of torch are not compiled; write the op in Python or with "
        "rl.custom_op",
    )
)

"""The webgpu device: every op as WGSL compute shaders, natively and in the tab."""

from rushlight.core.backends.webgpu.backend import WebGpuBackend
from rushlight.core.errors import DeviceError

__all__ = ["WebGpuBackend", "count_adapters", "open_backend"]


def open_backend(index: int) -> WebGpuBackend:
    """The backend of adapter `index`; DeviceError where there is none, with what to install."""
    from rushlight.core.backends.webgpu.native import open_port

    return WebGpuBackend(open_port(index))


def count_adapters() -> int:
    """How many adapters there are; 0 where WebGPU cannot be asked."""
    from rushlight.core.backends.webgpu.native import adapters

    try:
        return len(adapters())
    except DeviceError:
        return 0

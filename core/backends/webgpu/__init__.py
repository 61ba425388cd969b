"""The webgpu device: every op as WGSL compute shaders, natively and in the tab."""

from rushlight.core.backends.webgpu.backend import WebGpuBackend

__all__ = ["WebGpuBackend", "open_backend"]


def open_backend(index: int) -> WebGpuBackend:
    """The backend of adapter `index`; DeviceError where there is none."""
    from rushlight.core.backends.webgpu.native import open_port

    return WebGpuBackend(open_port(index))

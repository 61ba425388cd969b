"""The webgpu device: every op as WGSL compute shaders, natively and in the tab."""

import sys

from rushlight.core.backends.webgpu.backend import WebGpuBackend
from rushlight.core.backends.webgpu.compiler import autotune
from rushlight.core.basis.errors import DeviceError

__all__ = ["WebGpuBackend", "count_adapters", "open_backend", "open_backend_async"]


def open_backend(index: int) -> WebGpuBackend:
    """The backend of adapter `index`; DeviceError with a hint if there is none."""
    if sys.platform == "emscripten":
        from rushlight.core.backends.webgpu.runtime import browser

        backend = WebGpuBackend(browser.open_port(index))
        browser._run(autotune.recall_in_tab(backend))
        return backend
    from rushlight.core.backends.webgpu.runtime import native

    backend = WebGpuBackend(native.open_port(index))
    autotune.recall(backend)
    from rushlight.core.backends.webgpu.compiler import checking

    if checking.wanted(backend):
        backend.checks = checking.KernelChecks(backend)
    return backend


async def open_backend_async(index: int) -> WebGpuBackend:
    """`open_backend` without blocking."""
    if sys.platform != "emscripten":
        return open_backend(index)
    from rushlight.core.backends.webgpu.runtime.browser import open_port_async

    backend = WebGpuBackend(await open_port_async(index))
    await autotune.recall_in_tab(backend)
    return backend


def count_adapters() -> int:
    """The number of adapters; 0 if WebGPU is not available."""
    if sys.platform == "emscripten":
        from rushlight.core.backends.webgpu.runtime.browser import has_webgpu

        return int(has_webgpu())
    from rushlight.core.backends.webgpu.runtime.native import adapters

    try:
        return len(adapters())
    except DeviceError:
        return 0

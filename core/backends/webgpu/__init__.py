"""The webgpu device: every op as WGSL compute shaders, natively and in the tab."""

import sys

from rushlight.core.backends.webgpu import tune
from rushlight.core.backends.webgpu.backend import WebGpuBackend
from rushlight.core.errors import DeviceError

__all__ = ["WebGpuBackend", "count_adapters", "open_backend", "open_backend_async"]


def open_backend(index: int) -> WebGpuBackend:
    """The backend of adapter `index`; DeviceError where there is none, with what to install."""
    if sys.platform == "emscripten":
        from rushlight.core.backends.webgpu import browser

        backend = WebGpuBackend(browser.open_port(index))
        browser._run(tune.recall_in_tab(backend))
        return backend
    from rushlight.core.backends.webgpu import native

    backend = WebGpuBackend(native.open_port(index))
    tune.recall(backend)
    return backend


async def open_backend_async(index: int) -> WebGpuBackend:
    """`open_backend` that waits without blocking."""
    if sys.platform != "emscripten":
        return open_backend(index)
    from rushlight.core.backends.webgpu.browser import open_port_async

    backend = WebGpuBackend(await open_port_async(index))
    await tune.recall_in_tab(backend)
    return backend


def count_adapters() -> int:
    """How many adapters there are; 0 where WebGPU cannot be asked."""
    if sys.platform == "emscripten":
        from rushlight.core.backends.webgpu.browser import has_webgpu

        return int(has_webgpu())
    from rushlight.core.backends.webgpu.native import adapters

    try:
        return len(adapters())
    except DeviceError:
        return 0

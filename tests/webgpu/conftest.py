"""Fixtures of the tests of the webgpu device; skipped where no adapter can be opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.plans import gemm
from rushlight.core.errors import DeviceError


@pytest.fixture(scope="session", autouse=True)
def adapter() -> None:
    """Skip where there is no adapter; under RUSHLIGHT_REQUIRE that is a failure."""
    try:
        _ = rl.device("webgpu").info
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def gpu() -> rl.Device:
    """The first adapter as a device."""
    return rl.device("webgpu")


@pytest.fixture
def backend(gpu: rl.Device):  # type: ignore[no-untyped-def]
    """The backend of the device: recorder, pool and limits."""
    return gpu.backend


@pytest.fixture
def force(backend) -> Iterator[Callable[[str], None]]:  # type: ignore[no-untyped-def]
    """Lets every product use one configuration; `quads` where the adapter has subgroups."""
    missing = "subgroups" not in backend.port.features

    def use(name: str) -> None:
        gemm.forced[:] = ["registers" if name == "quads" and missing else name]

    yield use
    gemm.forced.clear()


@pytest.fixture
def small_bindings(backend, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """The backend while a binding holds no more than one MiB."""
    limits = {**backend.port.limits, "maxStorageBufferBindingSize": 1 << 20}
    monkeypatch.setattr(backend.port, "limits", limits)
    return backend

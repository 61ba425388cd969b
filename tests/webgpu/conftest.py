"""Fixtures of the tests of the webgpu device; skipped where no adapter can be opened."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.lowering.products import gemm
from rushlight.core.basis.errors import DeviceError


def _op_samples() -> ModuleType:
    """tests/core/samples, which that folder's conftest loads under the same name."""
    name = "rushlight_tests_samples"
    if name not in sys.modules:
        place = Path(__file__).parents[1] / "core" / "samples" / "__init__.py"
        spec = importlib.util.spec_from_file_location(name, place)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `op_name` runs for every op that has samples, `whole_name` for integers."""
    samples = _op_samples().SAMPLES
    if "op_name" in metafunc.fixturenames:
        metafunc.parametrize("op_name", list(samples))
    if "whole_name" in metafunc.fixturenames:
        metafunc.parametrize("whole_name", [n for n, s in samples.items() if s.whole is not None])


@pytest.fixture(scope="session")
def op_samples() -> ModuleType:
    """The package of the op samples."""
    return _op_samples()


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

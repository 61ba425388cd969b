"""Fixtures of the tests of the webgpu device; they run where it is among the test devices."""

from __future__ import annotations

import os

import pytest

import rushlight as rl


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where webgpu is not asked for, say so instead of failing for want of an adapter."""
    if "webgpu" in os.environ.get("RUSHLIGHT_TEST_DEVICES", "cpu").split(","):
        return
    reason = "webgpu is not among RUSHLIGHT_TEST_DEVICES"
    for item in items:
        if "/webgpu/" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def gpu() -> rl.Device:
    """The first adapter as a device."""
    return rl.device("webgpu")


@pytest.fixture
def backend(gpu: rl.Device):  # type: ignore[no-untyped-def]
    """The backend of the device: recorder, pool and limits."""
    return gpu.backend


@pytest.fixture
def small_bindings(backend, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """The backend while a binding holds no more than one MiB."""
    limits = {**backend.port.limits, "maxStorageBufferBindingSize": 1 << 20}
    monkeypatch.setattr(backend.port, "limits", limits)
    return backend

"""Fixtures that all tests share: the device, and what must not be skipped."""

from __future__ import annotations

import os

import pytest

# The devices that the tensor tests run on; a new device is added here and nowhere else.
DEVICES = os.environ.get("RUSHLIGHT_TEST_DEVICES", "cpu").split(",")
REQUIRED = frozenset(filter(None, os.environ.get("RUSHLIGHT_REQUIRE", "").split(",")))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "native: needs a native process, sockets or Node; deselected inside the tab"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", DEVICES)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item):  # type: ignore[no-untyped-def]
    """Where something is required, a skip is a failure."""
    outcome = yield
    report = outcome.get_result()
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although RUSHLIGHT_REQUIRE={','.join(sorted(REQUIRED))}: " + (
            str(report.longrepr)
        )

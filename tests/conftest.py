"""Fixtures that all tests share: the device, and what must not be skipped."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import re
import signal
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis.internal.conjecture import providers

# Examples are the same in every run and in every worker: hypothesis would mix in the constants of
# whichever modules of ours have been imported by then.
if hasattr(providers, "is_local_module_file"):
    providers.is_local_module_file = lambda path: False
# Kernels are what the tests say, whatever was measured on this machine.
os.environ.setdefault("RUSHLIGHT_TUNE", "off")
REQUIRED = frozenset(filter(None, os.environ.get("RUSHLIGHT_REQUIRE", "").split(",")))


@functools.cache
def devices() -> list[str]:
    """The devices that the tensor tests run on: webgpu where it is required or has an adapter.

    RUSHLIGHT_TEST_DEVICES names others; in the tab it is the only way to add webgpu.
    """
    named = os.environ.get("RUSHLIGHT_TEST_DEVICES")
    if named:
        return named.split(",")
    if "webgpu" in REQUIRED:
        return ["cpu", "webgpu"]
    if sys.platform == "emscripten":
        return ["cpu"]
    from rushlight.core.backends.webgpu import count_adapters

    return ["cpu", "webgpu"] if count_adapters() else ["cpu"]


def pytest_configure(config: pytest.Config) -> None:
    # A background job of a shell ignores Ctrl-C, and so would the programs that tests start.
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers", "native: needs a native process, sockets or Node; deselected inside the tab"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", devices())


@pytest.fixture
def widest(device: str) -> str:
    """The widest floating dtype of the device: webgpu refuses float64, by name."""
    return "float32" if device.startswith("webgpu") else "float64"


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although RUSHLIGHT_REQUIRE={','.join(sorted(REQUIRED))}: " + (
            str(report.longrepr)
        )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item):  # type: ignore[no-untyped-def]
    """Where something is required, a skip is a failure."""
    outcome = yield
    _refuse_skip(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):  # type: ignore[no-untyped-def]
    """The same for a module that skips itself, by `importorskip` for instance."""
    outcome = yield
    _refuse_skip(outcome.get_result())


@pytest.fixture(autouse=True)
def own_event_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hide the browser suite's event loop from the other tests of its worker.

    Playwright's synchronous interface leaves its loop marked as the thread's running one for as
    long as the browser lives, and asyncio.run would refuse to start another.
    """
    if "playwright" not in sys.modules or "browser" in request.path.parts:
        yield
        return
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


@pytest.fixture(scope="session")
def every_kernel() -> list[Any]:
    """Every kernel of the webgpu device as (WGSL, access, label); see every_kernel.py."""
    place = Path(__file__).parent / "every_kernel.py"
    spec = importlib.util.spec_from_file_location("rushlight_tests_every_kernel", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: list[Any] = module.collect()
    return found


@pytest.fixture(scope="session")
def readme_blocks() -> Callable[[str], list[str]]:
    """A function from a language to the README's blocks of it, in order."""
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")

    def blocks(language: str) -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)

    return blocks


# The sdist whose models/ has vocabularies with expected ids, and chat templates.
_LLAMA_CPP = (
    "llama-cpp-python",
    "llama_cpp_python-0.3.36.tar.gz",
    "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
)


@pytest.fixture(scope="session")
def llama_cpp_models() -> Path:
    """The folder models/ of llama.cpp, out of a pinned sdist; unpacked once into the cache."""
    from rushlight.core.io.fetch import cache_dir, package_file
    from rushlight.core.io.fetch.http import alone_in

    package, name, sha256 = _LLAMA_CPP
    folder = cache_dir() / "tests" / "llama-cpp-0.3.36"
    done = folder / "complete"
    if done.exists():
        return folder
    with alone_in(folder):
        if done.exists():
            return folder
        package_file(package, name, folder / name, sha256)
        with tarfile.open(folder / name, "r:gz") as archive:
            for member in archive:
                inside = member.name.partition("/vendor/llama.cpp/models/")[2]
                if member.isfile() and inside:
                    place = folder / inside
                    place.parent.mkdir(parents=True, exist_ok=True)
                    data = archive.extractfile(member)
                    assert data is not None
                    place.write_bytes(data.read())
        (folder / name).unlink()
        done.touch()
    return folder

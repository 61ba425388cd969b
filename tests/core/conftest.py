"""Fixtures of the core's tests: the op samples, a small hypothesis profile, golden files."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

# The tab runs Python three to ten times slower, so it gets fewer examples.
_FEW = 15 if sys.platform == "emscripten" else 100
settings.register_profile(
    "core",
    max_examples=int(os.environ.get("RUSHLIGHT_EXAMPLES", _FEW)),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("core")


def _beside(name: str) -> ModuleType:
    """A module of this folder: with the importlib import mode, tests cannot import one another."""
    known = sys.modules.get(f"rushlight_tests_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"rushlight_tests_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `op_name` runs for every op that has samples."""
    if "op_name" in metafunc.fixturenames:
        metafunc.parametrize("op_name", list(_beside("op_samples").SAMPLES))


@pytest.fixture(scope="session")
def op_samples() -> ModuleType:
    """The module of the op samples."""
    return _beside("op_samples")


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """A function that reads a golden file of tests/core/data (JSON)."""
    return lambda name: json.loads((HERE / "data" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def node() -> Iterator[Any]:
    """The tab's JavaScript in one Node process (node_driver.py)."""
    from rushlight.core.io import tokenizer

    driver = _beside("node_driver")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "_to_js", driver.Proxy)
        started = driver.Node(driver.program())
        yield started
        started.close()


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

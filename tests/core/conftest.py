"""Fixtures of the core's tests: the op samples, a small hypothesis profile, golden files."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
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
    """A module or package of this folder.

    With the importlib import mode, tests cannot import one another.
    """
    known = sys.modules.get(f"rushlight_tests_{name}")
    if known is not None:
        return known
    package = HERE / name / "__init__.py"
    place = package if package.is_file() else HERE / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"rushlight_tests_{name}", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `op_name` runs for every op that has samples; so `composite_name`."""
    if "op_name" in metafunc.fixturenames:
        metafunc.parametrize("op_name", list(_beside("samples").SAMPLES))
    if "composite_name" in metafunc.fixturenames:
        metafunc.parametrize("composite_name", list(_beside("composite_samples").SAMPLES))


@pytest.fixture(scope="session")
def op_samples() -> ModuleType:
    """The package of the op samples."""
    return _beside("samples")


@pytest.fixture(scope="session")
def composite_samples() -> ModuleType:
    """The module of the composites' samples."""
    return _beside("composite_samples")


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """A function that reads a golden file of tests/core/data (JSON)."""
    return lambda name: json.loads((HERE / "data" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def charsmap() -> Callable[[dict[str, str]], str]:
    """A function that builds SentencePiece's table of replaced characters (charsmap.py)."""
    found: Callable[[dict[str, str]], str] = _beside("charsmap").charsmap
    return found


@pytest.fixture(scope="session")
def node() -> Iterator[Any]:
    """The tab's JavaScript in one Node process (node_driver.py)."""
    from rushlight.core.io.text import tokenizer

    driver = _beside("node_driver")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "_to_js", driver.Proxy)
        started = driver.Node(driver.program())
        yield started
        started.close()


@pytest.fixture(scope="session")
def counting_node() -> Iterator[Any]:
    """The same in a process that counts its steps (slowly): its method `steps` tells them."""
    driver = _beside("node_driver")
    started = driver.Node(driver.program(), "count")
    yield started
    started.close()

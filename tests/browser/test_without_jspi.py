"""webgpu in a browser that cannot wait in the middle of Python: JSPI is removed, as in Safari."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).parent / "data" / "without_jspi.py"
CHECKS = [
    node.name
    for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body
    if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("check_")
]
# What is said before the device is opened: these run first.
UNOPENED = ("check_a_missing_adapter_is_told", "check_a_device_that_was_not_opened_says_how")


@pytest.fixture(scope="module", params=["page", "worker"])
def python(
    request: pytest.FixtureRequest,
    module_pages: Any,
    module_serve: Any,
    python_place: Path,
) -> Iterator[Any]:
    """Python with the checks defined, in a page's main thread and in a worker."""
    shutil.copy(ROOT / "tests" / "core" / "data" / "tiny_byte_level.json", python_place)
    url = module_serve(python_place, plain=True).url
    started = module_pages.start_python(url, jspi=False, worker=request.param == "worker")
    started(SOURCE.read_text(encoding="utf-8") + "\nNone")
    yield started


@pytest.mark.parametrize("check", CHECKS)
def test_it_works(python: Any, check: str, native: Any) -> None:
    if check not in UNOPENED:
        python('await rl.device_async("webgpu")\nNone')
    found = python(f"await {check}()")
    if check == "check_embedding":
        expected = native.encode("a rush and a little fat").numpy()
        assert np.abs(np.array(found) - expected).max() <= 1e-5

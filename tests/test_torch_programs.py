"""Programs in plain torch style give torch's losses after their imports alone are changed."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "examples" / "torch"
# What torch computes; made by tests/parity/make_torch_losses.py.
LOSSES = json.loads((ROOT / "tests" / "core" / "data" / "torch_losses.json").read_text("utf-8"))


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of programs on the path of imports, for as long as the test runs."""
    monkeypatch.syspath_prepend(PROGRAMS)
    yield
    for path in PROGRAMS.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_there_are_fourteen_and_only_their_imports_name_the_library() -> None:
    assert {p.stem for p in PROGRAMS.glob("*.py")} == {*LOSSES, "seeded"} and len(LOSSES) == 14
    for path in PROGRAMS.glob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        named = [line for line in lines if "rushlight" in line]
        assert named and all(re.match(r"(import|from) rushlight\b", line) for line in named)


@pytest.mark.parametrize("name", LOSSES)
def test_the_losses_are_those_of_torch(name: str, programs: None) -> None:
    found = importlib.import_module(name).train("cpu")
    assert found == pytest.approx(LOSSES[name], rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_the_losses_are_the_same_on_the_gpu(name: str, programs: None) -> None:
    found = importlib.import_module(name).train("webgpu", 2)
    assert len(found) >= 2 and found == pytest.approx(LOSSES[name][: len(found)], rel=1e-3)

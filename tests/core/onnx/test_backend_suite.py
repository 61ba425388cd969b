"""onnx's own backend suite: every case passes but those listed with a reason, which must fail."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("onnx backend suite")]
_SHARDS = 6


def _suite() -> Any:
    spec = importlib.util.spec_from_file_location("suite", Path(__file__).with_name("suite.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


suite: Any = _suite()


def _check(group: str, device: str, shard: int = 0, shards: int = 1) -> None:
    results = suite.outcomes(device, group, shard=shard, shards=shards)
    assert results
    reasons = {case.name: suite.excepted(case, device) for case in suite.cases(group)}
    failed = {name for name, error in results.items() if error is not None}
    expected = {name for name in results if reasons[name]}
    told = "\n".join(f"{name}: {results[name]}" for name in sorted(failed - expected))
    assert not failed - expected, told
    assert not expected - failed, f"these pass: {sorted(expected - failed)}"


@pytest.mark.parametrize("shard", range(_SHARDS))
def test_cases_of_operators(device: str, shard: int) -> None:
    _check("node", device, shard, _SHARDS)


@pytest.mark.parametrize("group", suite.GROUPS[1:])
def test_cases_of_models(device: str, group: str) -> None:
    _check(group, device)


def test_few_cases_are_excepted() -> None:
    names = [case.name for group in suite.GROUPS for case in suite.cases(group)]
    excepted = [n for g in suite.GROUPS for n in suite.cases(g) if suite.excepted(n, "cpu")]
    assert len(names) > 1800 and len(excepted) <= 15

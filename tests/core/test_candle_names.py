"""docs/candle.md: every name that it gives exists; a missing name says what is near."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest

import rushlight as rl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "candle.md"


@pytest.mark.native
def test_the_names_exist() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    found = [here for candle, here in rows if candle != "candle"]
    assert len(found) > 250
    for name in found:
        reduce(getattr, name.split("."), rl)


def test_a_missing_name_says_what_is_near() -> None:
    with pytest.raises(AttributeError, match="no logsumex; near: logsumexp"):
        _ = rl.logsumex
    assert not hasattr(rl, "zzz")

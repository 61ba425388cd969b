"""Kinds of layers as config.json gives them, and lists of kinds that lie."""

from __future__ import annotations

from typing import Any

import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.models.layers.building import kinds_by_pairs

KINDS = ("global", "local")


def test_pairs_of_kinds_and_times_are_expanded() -> None:
    pairs = [[["global", "local"], 2], [["local"], 1]]
    found = kinds_by_pairs("attention_types", pairs, 5, KINDS)
    assert found == ["global", "local", "global", "local", "local"]


@pytest.mark.parametrize(
    "pairs",
    [
        7,
        "global",
        [7],
        [[["global"], "5"]],
        [["global", 5]],
        [[["global"], 4]],
        [[["banded"], 5]],
        [[["global"], 10**30]],
        [[[], 10**30]],
        [[[["global"]], 5]],
        [[["global"], -5]],
    ],
)
def test_pairs_that_lie_are_refused_in_bounded_steps(pairs: Any) -> None:
    with pytest.raises(FormatError, match="attention_types is .*; it must give each of 5 layers"):
        kinds_by_pairs("attention_types", pairs, 5, KINDS)

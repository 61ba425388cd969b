"""What tests of the C kernels share: each runs with every set of instructions the processor has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rushlight.core.backends.cpu import simd

VARIANTS = {0: "SSE4", 1: "AVX2", 2: "AVX-512"}
IDS = {0: "base", 1: "avx2", 2: "avx512"}  # base: also what the module in a tab has
if os.environ.get("RUSHLIGHT_KERNELS") == "numpy":
    collect_ignore_glob = ["test_*.py"]


def _levels() -> list[int]:
    if simd.library is None:  # said so by test_messages.py
        return [0]
    best = simd.library.limit(-1)
    return [i for i in VARIANTS if i <= next((j for j, v in VARIANTS.items() if v == best), 0)]


@pytest.fixture(params=_levels(), ids=lambda level: IDS[level])
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs with these instructions and no later ones."""
    assert simd.library is not None
    yield simd.library.limit(request.param)
    simd.library.limit(-1)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any]]:
    """both(fn, *args, **options): what fn gives with the C kernels, and what with NumPy's alone."""

    def call(fn: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, Any]:
        mine = fn(*args, **options)
        with monkeypatch.context() as m:
            m.setattr(simd, "library", None)
            return mine, fn(*args, **options)

    return call

"""What tests of the C kernels share: each runs with every set of instructions the processor has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rushlight.core.backends.cpu import simd

VARIANTS = {0: "SSE4", 1: "AVX2", 2: "AVX-512"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of it needs the library."""
    for item in items:
        if "simd" in item.path.parts:
            item.add_marker(pytest.mark.native)


def _levels() -> list[int]:
    assert simd.library is not None, "build it: python -m rushlight.simd_kernels.build"
    most = simd.library.limit(-1)
    return (
        [i for i in VARIANTS if i <= list(VARIANTS.values()).index(most)]
        if most in VARIANTS.values()
        else [0]
    )


@pytest.fixture(params=_levels(), ids=lambda level: VARIANTS[level])
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs with these instructions and no later ones."""
    assert simd.library is not None
    yield simd.library.limit(request.param)
    simd.library.limit(-1)

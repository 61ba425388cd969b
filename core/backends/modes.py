"""Modes that kernels ask for while they run: one submit per op, and how `linear` multiplies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

debugging = [False]
# How `linear` may multiply with quantized weights.
LINEAR_MODES = ("exact", "fast", "float16", "int8")
_mode_everywhere = ["exact"]  # of all threads
_mode_here: ContextVar[str | None] = ContextVar("linear_mode", default=None)


@contextmanager
def debug(enabled: bool = True) -> Iterator[None]:
    """Within this context webgpu submits every op by itself and waits for it.

    A device error then names exactly one op, at the line that ran it. This is slow.
    """
    before, debugging[0] = debugging[0], enabled
    try:
        yield
    finally:
        debugging[0] = before


def set_linear_mode(mode: str) -> None:
    """Set how `linear` multiplies with block-quantized weights; "exact" is the default.

    exact: activations stay float32. fast: each 32 activations are rounded to 16-bit integers, on
    cpu. float16: on webgpu, products of more than 16 rows are computed in float16 and added up in
    float32 after eight of them. int8: there, each 32 activations are rounded to 8-bit integers, for
    types whose elements are bytes times a scale; it changes a few of 100 tokens, as llama.cpp's
    products do. A device without such a kernel takes the next mode that is more exact. Generation
    has its own setting (its option `linear`), and `linear_mode` sets the mode for a block of code.
    ValueError for another mode.
    """
    _mode_everywhere[0] = _checked(mode)


def get_linear_mode() -> str:
    """The mode of `linear_mode` in this context, else that of `set_linear_mode`."""
    return _mode_here.get() or _mode_everywhere[0]


@contextmanager
def linear_mode(mode: str) -> Iterator[None]:
    """Within this context `linear` runs in this mode; see `set_linear_mode`."""
    token = _mode_here.set(_checked(mode))
    try:
        yield
    finally:
        _mode_here.reset(token)


def _checked(mode: str) -> str:
    if mode not in LINEAR_MODES:
        known = ", ".join(LINEAR_MODES)
        raise ValueError(f"linear mode {mode!r} is not supported; supported: {known}")
    return mode

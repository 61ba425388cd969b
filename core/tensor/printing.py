"""Text of a tensor: torch's layout, four digits; large tensors without their middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

PRECISION, THRESHOLD, EDGE, WIDTH = 4, 1000, 3, 80


def _formatter(values: Array) -> Callable[[Any], str]:
    """A function that formats one element; all elements are as wide as the widest.

    As in torch, zeros, nan and infinities do not count for the width of floats.
    """
    if values.dtype.kind == "c":
        real, imag = _formatter(values.real), _formatter(values.imag)

        def both(v: complex) -> str:
            part = f"{imag(v.imag).lstrip()}j"
            return real(v.real) + part if v.imag < 0 else f"{real(v.real)}+{part}"

        return both
    if values.dtype == np.bool_ or values.dtype.kind in "iu":
        width = max((len(str(v)) for v in values.reshape(-1).tolist()), default=0)
        return lambda v: str(v).rjust(width)
    signed = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    finite = np.abs(signed)
    whole = bool(np.all(finite == np.ceil(finite)))
    scientific = bool(finite.size) and bool(
        finite.max() > 1e8 or finite.max() / finite.min() > 1000 or finite.min() < 1e-4
    )

    def one(v: float) -> str:
        if not np.isfinite(v):
            return str(v)
        if scientific:
            return f"{v:.{PRECISION}e}"
        return f"{v:.0f}." if whole else f"{v:.{PRECISION}f}"

    width = max((len(one(v)) for v in signed.tolist()), default=0)
    return lambda v: one(v).rjust(width)


def _summary(values: Array) -> Array:
    """The printed elements: the first and last three of every long dim."""
    for d, n in enumerate(values.shape):
        if n > 2 * EDGE:
            values = np.take(values, [*range(EDGE), *range(n - EDGE, n)], axis=d)
    return values


def _rows(values: Array, one: Callable[[Any], str], indent: int, short: bool) -> str:
    if values.ndim == 0:
        return one(values.item())
    n = values.shape[0]
    cut = short and n > 2 * EDGE
    shown = [*range(EDGE), *range(n - EDGE, n)] if cut else list(range(n))
    if values.ndim == 1:
        parts = [one(values[i].item()) for i in shown]
        if cut:
            parts.insert(EDGE, " ...")
        per_line = max(1, (WIDTH - indent) // (max(map(len, parts), default=1) + 2))
        lines = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    blocks = [_rows(values[i], one, indent + 1, short) for i in shown]
    if cut:
        blocks.insert(EDGE, "...")
    gap = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
    return "[" + gap.join(blocks) + "]"


def format_tensor(values: Array | None, shape: tuple[int, ...], notes: list[str]) -> str:
    """The text of a tensor; without `values` only its shape and notes (dtype, device, ...)."""
    if values is None:
        return f"tensor({', '.join(['...', f'size={shape}', *notes])})"
    if values.size == 0:
        body = "[]" if len(shape) == 1 else f"[], size={shape}"
    else:
        short = values.size > THRESHOLD
        one = _formatter(_summary(values) if short else values)
        body = _rows(values, one, len("tensor("), short)
    return f"tensor({', '.join([body, *notes])})"

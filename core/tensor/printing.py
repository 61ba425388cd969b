"""Text of a tensor: torch's layout; large tensors without their middle. Options as in torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_DEFAULT = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES: dict[str, dict[str, Any]] = {
    "default": _DEFAULT,
    "short": {**_DEFAULT, "precision": 2, "edgeitems": 2},
    "full": {**_DEFAULT, "threshold": math.inf},
}
_options: dict[str, Any] = dict(_DEFAULT)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed, as in torch; None leaves an option as it is.

    precision: digits after the point (4). threshold: the most elements printed in full (1000).
    edgeitems: elements at each end of a dim that is cut (3). linewidth: columns (80). sci_mode:
    whether numbers are scientific; None decides by the numbers. profile: "default", "short" or
    "full" sets all of them first.

    Raises ValueError for another profile.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions: profile is {profile!r}; it must be one of "
                f"{', '.join(_PROFILES)}"
            )
        _options.update(_PROFILES[profile])
    options = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _options.update({name: value for name, value in options.items() if value is not None})
    _options["sci_mode"] = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options of `set_printoptions` as they are now."""
    return dict(_options)


def _formatter(values: Array) -> Callable[[Any], str]:
    """A function that formats one element; all elements are as wide as the widest.

    As in torch, zeros, nan and infinities do not count for the width of floats.
    """
    if values.dtype.kind == "c":
        real, imag = _formatter(values.real), _formatter(values.imag)

        def both(v: complex) -> str:
            imaginary = f"{imag(v.imag).lstrip()}j"
            return f"{real(v.real)}{'' if imaginary.startswith('-') else '+'}{imaginary}"

        return both
    if values.dtype == np.bool_ or values.dtype.kind in "iu":
        width = max((len(str(v)) for v in values.reshape(-1).tolist()), default=0)
        return lambda v: str(v).rjust(width)
    signed = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    finite = np.abs(signed)
    integral = bool(np.all(finite == np.ceil(finite)))
    scientific, digits = _options["sci_mode"], _options["precision"]
    if not finite.size:
        scientific = False
    elif scientific is None:
        scientific = bool(
            finite.max() > 1e8 or finite.max() / finite.min() > 1000 or finite.min() < 1e-4
        )

    def one(v: float) -> str:
        if not np.isfinite(v):
            return str(v)
        if scientific:
            return f"{v:.{digits}e}"
        return f"{v:.0f}." if integral else f"{v:.{digits}f}"

    width = max((len(one(v)) for v in signed.tolist()), default=0)
    return lambda v: one(v).rjust(width)


def _summary(values: Array) -> Array:
    """The printed elements: the first and last few of every long dim."""
    edge = _options["edgeitems"]
    for d, n in enumerate(values.shape):
        if n > 2 * edge:
            values = np.take(values, [*range(edge), *range(n - edge, n)], axis=d)
    return values


def _rows(values: Array, formatted: Callable[[Any], str], indent: int, short: bool) -> str:
    if values.ndim == 0:
        return formatted(values.item())
    n, edge = values.shape[0], _options["edgeitems"]
    cut = short and n > 2 * edge
    shown = [*range(edge), *range(n - edge, n)] if cut else list(range(n))
    if values.ndim == 1:
        parts = [formatted(values[i].item()) for i in shown]
        if cut:
            parts.insert(edge, " ...")
        per_line = max(1, (_options["linewidth"] - indent) // (max(map(len, parts), default=1) + 2))
        lines = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    blocks = [_rows(values[i], formatted, indent + 1, short) for i in shown]
    if cut:
        blocks.insert(edge, "...")
    gap = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
    return "[" + gap.join(blocks) + "]"


def format_tensor(values: Array | None, shape: tuple[int, ...], notes: list[str]) -> str:
    """The text of a tensor; without `values` only its shape and notes (dtype, device, ...).

    It raises nothing.
    """
    if values is None:
        first = notes[:1] if notes[:1] == ["device='meta'"] else []
        return f"tensor({', '.join(['...', *first, f'size={shape}', *notes[len(first) :]])})"
    if values.size == 0:
        body = "[]" if len(shape) == 1 else f"[], size={shape}"
    else:
        short = values.size > _options["threshold"]
        formatted = _formatter(_summary(values) if short else values)
        body = _rows(values, formatted, len("tensor("), short)
    text = f"tensor({body}"
    width = len(text) - text.rfind("\n") + 1
    for note in notes:  # on a line of its own where it does not fit, as torch has it
        if width + len(note) + 2 > _options["linewidth"]:
            text, width = f"{text},\n{' ' * len('tensor(')}{note}", len("tensor(") + len(note)
        else:
            text, width = f"{text}, {note}", width + len(note) + 2
    return f"{text})"

"""Samples of the ops of core/ops/conv.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.core.tools.testing import draws

from .base import NAN, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _taps(
    g: tuple[int, ...], w: tuple[int, ...], size: Any, a: dict[str, Any]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """(output place, input place, weight place) of every product of a convolution."""
    per = g[1] // a["groups"]
    for b, f, y, x, c, i, j in np.ndindex(*g, *w):
        py = y * a["stride"][0] + i * a["dilation"][0] - a["padding"][0]
        px = x * a["stride"][1] + j * a["dilation"][1] - a["padding"][1]
        if 0 <= py < size[0] and 0 <= px < size[1]:
            yield (b, f, y, x), (b, f // per * w[0] + c, py, px), (f, c, i, j)


def _loop_conv(x: Array, w: Array, bias: Array | None, **a: Any) -> Array:
    size = [
        (x.shape[2 + d] + 2 * a["padding"][d] - a["dilation"][d] * (w.shape[2 + d] - 1) - 1)
        // a["stride"][d]
        + 1
        for d in range(2)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *size))
    for to, source, tap in _taps(out.shape, w.shape[1:], x.shape[2:], a):
        out[to] += x[source] * w[tap]
    return out if bias is None else out + bias[:, None, None]


def _loop_conv_input(g: Array, w: Array, *, size: Any, **a: Any) -> Array:
    out = np.zeros((g.shape[0], w.shape[1] * a["groups"], *size))
    for to, source, tap in _taps(g.shape, w.shape[1:], size, a):
        out[source] += g[to] * w[tap]
    return out


def _loop_conv_weight(x: Array, g: Array, *, size: Any, **a: Any) -> Array:
    out = np.zeros((g.shape[1], x.shape[1] // a["groups"], *size))
    for to, source, tap in _taps(g.shape, out.shape[1:], x.shape[2:], a):
        out[tap] += g[to] * x[source]
    return out


def _conv(
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    **more: Any,
) -> dict[str, Any]:
    return dict(stride=stride, padding=padding, dilation=dilation, groups=groups, **more)


_NO_CONV = {"0-d": "a convolution takes four dims"}
_ALL = _conv((2, 1), (1, 2), (1, 2), 2)
_IMAGE = np.where(draws(6, (1, 1, 4, 4)) > 0.7, NAN, draws(7, (1, 1, 4, 4)))
SAMPLES["conv2d"] = Samples(_loop_conv, "product", (
    Sample("odd", (draws(1, (2, 3, 5, 7)), draws(2, (4, 3, 3, 2)), draws(3, (4,))), _conv()),
    Sample("everything", (draws(1, (2, 4, 5, 6)), draws(2, (6, 2, 3, 2)), draws(3, (6,))), _ALL),
    Sample("depthwise", (draws(1, (1, 3, 4, 4)), draws(2, (3, 1, 2, 2)), None), _conv(groups=3)),
    Sample("empty", (np.zeros((0, 3, 5, 5)), draws(2, (4, 3, 3, 3)), None), _conv()),
    Sample("nan", (_IMAGE, np.ones((1, 1, 2, 2)), None), _conv()),
    Sample("gradient", (draws(1, (1, 2, 3, 4)), draws(2, (2, 1, 2, 2)), draws(3, (2,))), _ALL,
           grad=(0, 1, 2)),
), without=_NO_CONV)  # fmt: skip
SAMPLES["conv2d_input"] = Samples(
    _loop_conv_input,
    "product",
    (
        Sample("odd", (draws(1, (2, 4, 3, 6)), draws(2, (4, 3, 3, 2))), _conv(size=(5, 7))),
        Sample(
            "everything", (draws(1, (2, 6, 3, 8)), draws(2, (6, 2, 3, 2))), {**_ALL, "size": (5, 6)}
        ),
        Sample("empty", (np.zeros((0, 4, 3, 3)), draws(2, (4, 3, 3, 3))), _conv(size=(5, 5))),
        Sample("nan", (_IMAGE, np.ones((1, 1, 2, 2))), _conv(size=(5, 5))),
        Sample(
            "gradient",
            (draws(1, (1, 2, 2, 6)), draws(2, (2, 1, 2, 2))),
            {**_ALL, "size": (3, 4)},
            grad=(0, 1),
        ),
    ),
    without=_NO_CONV,
)
SAMPLES["conv2d_weight"] = Samples(
    _loop_conv_weight,
    "product",
    (
        Sample("odd", (draws(1, (2, 3, 5, 7)), draws(2, (2, 4, 3, 6))), _conv(size=(3, 2))),
        Sample(
            "everything", (draws(1, (2, 4, 5, 6)), draws(2, (2, 6, 3, 8))), {**_ALL, "size": (3, 2)}
        ),
        Sample("empty", (np.zeros((0, 3, 5, 5)), np.zeros((0, 4, 3, 3))), _conv(size=(3, 3))),
        Sample("nan", (_IMAGE, np.ones((1, 1, 3, 3))), _conv(size=(2, 2))),
        Sample(
            "gradient",
            (draws(1, (1, 2, 3, 4)), draws(2, (1, 2, 2, 6))),
            {**_ALL, "size": (2, 2)},
            grad=(0, 1),
        ),
    ),
    without=_NO_CONV,
)

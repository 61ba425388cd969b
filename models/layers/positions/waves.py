"""Sinusoidal positions (Vaswani et al., 2017), with all sines before the cosines."""

from __future__ import annotations

from typing import Literal

from rushlight.core import ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

Spacing = Literal["paired", "even"]


def waves(positions: Tensor, width: int, spacing: Spacing) -> Tensor:
    """sin(p * f) of each frequency f, then cos(p * f), (batch, length, width) of whole numbers.

    spacing: "paired" has f = 10000^(-2i/width); "even" has the exponents evenly from 0 to -1.
    FormatError for an odd width.
    """
    if width % 2:
        raise FormatError(f"config.json: the width {width} is odd; sines and cosines need pairs")
    half = width // 2
    steps = half if spacing == "paired" else max(half - 1, 1)
    frequencies = tensor([10000.0 ** (-i / steps) for i in range(half)], device=positions.device)
    angles = positions.float().unsqueeze(-1) * frequencies
    return ops.cat((ops.sin(angles), ops.cos(angles)), -1)

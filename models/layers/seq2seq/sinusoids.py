"""Sinusoidal positions (Vaswani et al., 2017) with all sines before the cosines."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt


def sinusoids(
    count: int, width: int, spacing: Literal["paired", "even"]
) -> npt.NDArray[np.float32]:
    """A table (count, width): sin(p * f) of each frequency f, then cos(p * f).

    spacing: "paired" has f = 10000^(-2i/width), as Marian and PEGASUS; "even" has the exponents
    evenly from 0 to -1, as tensor2tensor, with a column of zeros at the end of an odd width.
    """
    place = np.arange(count)[:, None]
    if spacing == "paired":
        angles = place / np.power(10000.0, 2 * (np.arange(width) // 2) / width)
        table = np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], 1)
    else:
        half = width // 2
        step = np.float32(np.log(10000.0) / max(half - 1, 1))
        angles = place.astype(np.float32) * np.exp(np.arange(half, dtype=np.float32) * -step)
        rest = np.zeros((count, width - 2 * half), np.float32)
        table = np.concatenate([np.sin(angles), np.cos(angles), rest], 1)
    return table.astype(np.float32)

"""Samples of composites: a call of tensors, and the same in NumPy. A new composite gets a row.

A composite that torch has needs none where a case of the golden files (data/core_*.json,
data/nn_goldens.json) calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import rushlight as rl
from rushlight.core.tools.testing import draws

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Composite:
    """One call: `call` of tensors gives what `reference` gives of the arrays in float64."""

    call: Callable[..., rl.Tensor]
    reference: Callable[..., Any]
    inputs: tuple[Array, ...] = (draws(1, (3, 5)),)
    family: str = "several"


F = rl.nn.functional
X, ROW = draws(1, (3, 5)), draws(2, (1, 5))
IMAGES = draws(3, (4, 6, 2, 3))


def _normal(x: Array, dims: tuple[int, ...]) -> Array:
    centred = x - x.mean(dims, keepdims=True)
    normal: Array = centred / np.sqrt((centred**2).mean(dims, keepdims=True) + 1e-5)
    return normal


SAMPLES = {
    "batch_norm": Composite(
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: _normal(x, (0, 2, 3)),
        (IMAGES,),
    ),
    "group_norm": Composite(
        lambda x: F.group_norm(x, 2),
        lambda x: _normal(x.reshape(4, 2, 3, 2, 3), (2, 3, 4)).reshape(x.shape),
        (IMAGES,),
    ),
    "broadcast_to": Composite(
        lambda x: x.broadcast_to((3, 5)), lambda x: np.broadcast_to(x, (3, 5)), (ROW,)
    ),
    "broadcast_tensors": Composite(
        lambda x, y: rl.stack(rl.broadcast_tensors(x, y)),
        lambda x, y: np.stack(np.broadcast_arrays(x, y)),
        (X, ROW),
    ),
    "full_like": Composite(lambda x: x.full_like(2.5), lambda x: np.full_like(x, 2.5)),
    "zeros_like": Composite(lambda x: x.zeros_like(), np.zeros_like),
    "ones_like": Composite(lambda x: x.ones_like(), np.ones_like),
    "empty_like": Composite(lambda x: rl.empty_like(x), np.zeros_like),
}

# Those that no sample can show, each with the file of the test that does.
ELSEWHERE = {
    **dict.fromkeys(("dropout", "rand_like", "randn_like", "randperm"), "ops/test_random.py"),
    "float_power": "test_torch_names.py",
    "masked_select_async": "tensor/test_async_reads.py",
}

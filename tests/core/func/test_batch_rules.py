"""Every op within vmap gives what it gives sample by sample."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

import rushlight as rl
from rushlight.core.tensor.op import REGISTRY

Array = npt.NDArray[Any]
SAMPLES = 3

# Ops without a rule for batches: they run sample by sample and say so.
WITHOUT = {
    "linear_experts",
    "linear_experts_t",
    "selective_scan",
    "delta_scan",
    "cache_write",
    "pack_rows",
    "pinv",
    "cell_scan",
    "cell_scan_backward",
    "byte_product",
    "byte_depthwise",
}
PARTLY = {"attention", "resample"}  # with sinks, or tables, of a sample's own they do too


def variants(x: Array) -> list[Array]:
    """The array, and others of its shape with numbers of the same kind."""
    if x.dtype.kind == "f":
        return [x * (1 - i / 4) for i in range(SAMPLES)]
    return [np.roll(x.reshape(-1), i).reshape(x.shape) for i in range(SAMPLES)]


def mixes(count: int) -> Iterator[tuple[bool, ...]]:
    """All operands with samples, and each alone."""
    yield (True,) * count
    if count > 1:
        for i in range(count):
            yield tuple(i == j for j in range(count))


def plain(x: Array) -> rl.Tensor:
    kind = np.float32 if x.dtype.kind == "f" else x.dtype
    return rl.from_numpy(np.array(x, kind, order="C"))


def check(op: Any, sample: Any, mix: tuple[bool, ...]) -> bool:
    """Compare one call; whether it warned."""
    every: list[Any] = [None if x is None else variants(x) for x in sample.inputs]
    if op.name == "ldl_solve":  # swaps and blocks that belong together are not turned
        every[1] = [sample.inputs[1]] * SAMPLES
    places = [i for i, x in enumerate(every) if x is not None]
    batched = [i for i, m in zip(places, mix, strict=True) if m]

    def call(*given: rl.Tensor) -> rl.Tensor:
        inputs: list[Any] = [None if x is None else plain(x[0]) for x in every]
        for i, x in zip(batched, given, strict=True):
            inputs[i] = x
        out: rl.Tensor = op(*inputs, **sample.attrs)
        return out

    rows = [[plain(every[i][s]) for i in batched] for s in range(SAMPLES)]
    wanted = rl.stack([call(*row) for row in rows])
    given = [rl.stack(list(column)) for column in zip(*rows, strict=True)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = rl.vmap(call)(*given)
    assert found.dtype is wanted.dtype
    np.testing.assert_allclose(found.host_values(), wanted.host_values(), rtol=2e-5, atol=1e-5)
    return bool(caught)


def test_an_op_of_a_batch_is_the_op_of_its_samples(op_samples: ModuleType, op_name: str) -> None:
    op, warned = REGISTRY[op_name], set()
    for sample in op_samples.SAMPLES[op_name].samples:
        for mix in mixes(sum(x is not None for x in sample.inputs)):
            if any(mix):
                warned.add(check(op, sample, mix))
    assert warned <= {op_name in WITHOUT} or op_name in PARTLY and warned == {False, True}

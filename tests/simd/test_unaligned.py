"""Tensors at odd addresses, as in a mapped file: the same bits as at even ones.

The sanitizers run this file too (test_sanitized.py): there no element is read as if it lay even.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu.lowering.blocks import KERNELS
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.tensor.op import REGISTRY

FLOATS = ("float32", "float64", "float16", "bfloat16")
# NumPy's products of float64 differ in the last bits by address.
PRODUCTS = {"conv2d", "conv2d_input", "conv2d_weight", "matmul", "linear", "linear_t",
            "linear_experts", "linear_experts_t", "attention", "cell_scan",
            "cell_scan_backward"}  # fmt: skip


def _samples() -> ModuleType:
    name = "rushlight_tests_samples"
    if name not in sys.modules:
        place = Path(__file__).parents[1] / "core" / "samples" / "__init__.py"
        spec = importlib.util.spec_from_file_location(name, place)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def at(data: bytes, odd: int) -> memoryview:
    """A copy of `data` at an address that is `odd` modulo 8."""
    room = np.empty(len(data) + 16, np.uint8)
    start = (odd - room.__array_interface__["data"][0]) % 8
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return memoryview(room.data[start : start + len(data)])


def moved(t: rl.Tensor, odd: int) -> rl.Tensor:
    """The tensor at an address that is `odd` modulo 8; strides of zero stay."""
    found = rl.Tensor.from_buffer(at(stored(t.storage.buffer), odd), "uint8", (t.storage.nbytes,))
    out = rl.Tensor(found.storage, t.dtype, t.layout)
    assert out.numel() == 0 or out.storage.address % 8 == odd
    return out


def stored(x: Any) -> bytes:
    return bytes(x.tobytes())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op_name", sorted(n for n in _samples().SAMPLES if not REGISTRY[n].view))
def test_every_op(op_name: str, dtype: str) -> None:
    op = REGISTRY[op_name]
    for sample in _samples().SAMPLES[op_name].samples:
        floats = [x for x in sample.inputs if x is not None and x.dtype.kind == "f"]
        if not sample.inputs or (not floats and dtype != FLOATS[0]):
            continue
        for turn in (False, True):  # also with strides
            given = [
                None
                if x is None
                else rl.tensor(
                    np.array(x.T, order="C") if turn else x,
                    dtype=dtype if x.dtype.kind == "f" else None,
                ).permute(*reversed(range(x.ndim)) if turn else range(x.ndim))
                for x in sample.inputs
            ]
            wanted = op(*given, device=rl.device("cpu"), **sample.attrs)
            found = op(
                *(None if t is None else moved(t, 1) for t in given),
                device=rl.device("cpu"),
                **sample.attrs,
            )
            if dtype == "float64" and op_name in PRODUCTS:
                np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)
            else:
                assert stored(found.storage.buffer) == stored(wanted.storage.buffer), sample.label


@pytest.mark.parametrize("dtype", ["float32", "int64", "int16", "float64"])
def test_writes_in_place(dtype: str) -> None:
    """What an op writes over lies odd as well, and a part of it even more so."""
    x = rl.arange(70).reshape(7, 10).to(dtype)
    changes: list[Callable[[Any], Any]] = [
        lambda t: t.add_(t),
        lambda t: t.t().mul_(3),
        lambda t: t.fill_(5),
        lambda t: t[1:, ::3].copy_(t[1:, :4].clone()),
        lambda t: t.__setitem__(2, t[0].clone()),
        lambda t: t[:, 1:].clamp_(3, 40),
    ]
    for change in changes:
        even, odd = moved(x, 0), moved(x, 1)
        change(even)
        change(odd)
        assert odd.tolist() == even.tolist()


def test_long_rows() -> None:
    """Enough elements for every loop of whole vectors, and for the threads."""
    x = rl.rand(37, 1031)
    odd = moved(x, 1)
    weight = moved(rl.rand(1031), 1)
    for fn in (
        lambda t: t.softmax(-1),
        lambda t: t.sum(0),
        lambda t: t.sum(1),
        lambda t: t.argmax(1),
        lambda t: t.amax(0),
        lambda t: t.t().contiguous(),
        lambda t: t @ t.t(),
        lambda t: t.cumsum(1),
        lambda t: rl.layer_norm(t, 1031, weight, weight),
        lambda t: rl.where(t > 0.5, t, -t),
        lambda t: t.sort(1).values,
        lambda t: rl.linear(t, t),
        lambda t: (t * 9).to("int64").sum(0),
        lambda t: rl.attention(*[t[:32, :1024].reshape(2, 4, 4, 1024)] * 3, causal=True),
    ):
        assert stored(fn(odd).storage.buffer) == stored(fn(x).storage.buffer)


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("dtype", [n for n, d in DTYPES.items() if d in KERNELS])
def test_weights_in_blocks(dtype: str, mode: str) -> None:
    kind, draws = DTYPES[dtype], np.random.default_rng(3)
    data = draws.integers(0, 50, (2, 40, 3 * kind.itemsize), np.uint8).tobytes()
    columns = 3 * kind.block
    weights = [rl.Tensor.from_buffer(at(data, odd), kind, (2, 40, columns)) for odd in (0, 1)]
    x, bias, index = rl.rand(5, columns), rl.rand(2, 40), rl.tensor([1, 0, 0, 1, 1])
    before = rl.get_linear_mode()
    rl.set_linear_mode(mode)
    try:
        for rows in (1, 5):
            for give in (lambda t: t, lambda t: moved(t, 1)):
                a = [
                    rl.linear(give(x[:rows].clone()), w[0], give(bias[0].clone())) for w in weights
                ]
                assert a[0].tolist() == a[1].tolist()
        found = [
            rl.linear_experts(moved(x, odd), w, moved(index, odd), moved(bias, odd))
            for odd, w in enumerate(weights)
        ]
        assert found[0].tolist() == found[1].tolist()
        found = [
            rl.nn.functional.embedding(moved(index, odd), w[0]) for odd, w in enumerate(weights)
        ]
        assert found[0].tolist() == found[1].tolist()
    finally:
        rl.set_linear_mode(before)

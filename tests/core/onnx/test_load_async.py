"""Loading without blocking: what `load` gives, files beside the model, refusals before weights."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

WIDTH = 80  # so that the weight is larger than what is read with the graph


def to_end(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs another to its end."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def _varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _value(name: str, *dims: int) -> bytes:
    shape = b"".join(_field(1, _field(1, n)) for n in dims)
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, 1) + _field(2, shape)))


def _tensor(name: str, values: Any, beside: str = "", offset: int = 0) -> bytes:
    array = np.asarray(values)
    kind = {"float32": 1, "int64": 7, "float16": 10, "float64": 11}[array.dtype.name]
    out = b"".join(_field(1, n) for n in array.shape) + _field(2, kind) + _field(8, name.encode())
    if not beside:
        return out + _field(9, array.tobytes())
    pairs = {"location": beside, "offset": str(offset), "length": str(array.nbytes)}
    for key, text in pairs.items():
        out += _field(13, _field(1, key.encode()) + _field(2, text.encode()))
    return out + _field(14, 1)


def model_of(weight: Any, bias: Any, *, op: str = "MatMul", beside: str = "") -> bytes:
    """A file of y = relu(x @ weight + bias); the weight may lie in a file beside it."""
    nodes = [(op, ["x", "w"], "m"), ("Add", ["m", "b"], "s"), ("Relu", ["s"], "y")]
    graph = b""
    for name, inputs, output in nodes:
        wires = b"".join(_field(1, i.encode()) for i in inputs) + _field(2, output.encode())
        graph += _field(1, wires + _field(4, name.encode()))
    graph += _field(5, _tensor("w", weight, beside, 64 if beside else 0))
    graph += _field(5, _tensor("b", bias))
    width = len(weight)
    graph += _field(11, _value("x", 1, width)) + _field(12, _value("y", 1, width))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 17))


def weight_and_bias(seed: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(WIDTH, WIDTH)).astype(np.float32)
    return weight, rng.normal(size=WIDTH).astype(np.float32)


def expected(x: Any, weight: Any, bias: Any) -> Any:
    return np.maximum(x @ weight + bias, 0)


class Slow:
    """A Source that can only be read without blocking, and notes what was read."""

    def __init__(self, data: bytes) -> None:
        self.name, self.data, self.size = "slow.onnx", data, len(data)
        self.reads: list[tuple[int, int]] = []

    def read(self, offset: int, n: int) -> bytes:
        raise AssertionError(f"a blocking read of {n} bytes at {offset}")

    async def read_async(self, offset: int, n: int) -> bytes:
        await asyncio.sleep(0)
        self.reads.append((offset, n))
        return self.data[offset : offset + n]

    def close(self) -> None:
        """Nothing is open."""


@to_end
async def test_a_source_is_read_without_blocking(device: str) -> None:
    weight, bias = weight_and_bias()
    source = Slow(model_of(weight, bias))
    module = await rl.onnx.load_async(source, device=device)
    x = np.linspace(-1, 1, WIDTH, dtype=np.float32)[None]
    for _ in range(3):  # as it is, captured, replayed
        y = await module.call_async(x=x)
        assert y.device.type == device
        np.testing.assert_allclose(
            await y.detach().numpy_async(), expected(x, weight, bias), rtol=1e-4, atol=1e-4
        )
    assert {n: tuple(p.shape) for n, p in module.named_parameters()} == {
        "w": (WIDTH, WIDTH),
        "b": (WIDTH,),
    }


@to_end
async def test_an_operator_that_is_missing_is_named_before_weights_are_read() -> None:
    weight, bias = weight_and_bias()
    source = Slow(model_of(weight, bias, op="NoSuchOp"))
    with pytest.raises(ValueError, match="NoSuchOp"):
        await rl.onnx.load_async(source)
    assert all(n < weight.nbytes or at == 0 for at, n in source.reads)


@to_end
async def test_a_damaged_file_is_told() -> None:
    weight, bias = weight_and_bias()
    with pytest.raises(ValueError, match=r"slow.onnx"):
        await rl.onnx.load_async(Slow(model_of(weight, bias)[:-300]))


@pytest.mark.native
def test_paths_and_files_beside_them(tmp_path: Path) -> None:
    weight, bias = weight_and_bias()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/w.bin").write_bytes(bytes(64) + weight.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of(weight, bias, beside="data/w.bin"))
    module = asyncio.run(rl.onnx.load_async(path))
    x = np.ones((1, WIDTH), np.float32)
    np.testing.assert_allclose(module(x).numpy(), expected(x, weight, bias), rtol=1e-4, atol=1e-4)
    path.write_bytes(model_of(weight, bias, beside="../w.bin"))
    with pytest.raises(ValueError, match="plain relative path"):
        asyncio.run(rl.onnx.load_async(path))
    path.write_bytes(model_of(weight, bias, beside="missing.bin"))
    with pytest.raises((ValueError, OSError), match=r"missing\.bin"):
        asyncio.run(rl.onnx.load_async(path))


@to_end
async def test_floats_of_16_bits_and_doubles_are_those_of_load() -> None:
    for dtype in (np.float16, np.float64):
        weight, bias = (a.astype(dtype) for a in weight_and_bias())
        data = model_of(weight, bias)
        here, there = rl.onnx.load(data), await rl.onnx.load_async(Slow(data))
        for (name, a), (_, b) in zip(
            here.named_parameters(), there.named_parameters(), strict=True
        ):
            assert a.dtype is b.dtype and a.shape == b.shape, name
            assert (a.numpy() == b.numpy()).all()

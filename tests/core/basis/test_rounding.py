"""bfloat16 and the float8 types: every code, every boundary, against torch and ml_dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.basis import codec
from rushlight.core.basis.dtype import as_dtype

NARROW = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16")


def floats(bits: list[int]) -> npt.NDArray[np.float32]:
    """float32 numbers from their bits."""
    return np.array(bits, np.int64).astype(np.uint32).view(np.float32)


def same(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    """Equal to the bit, signs of zeros too; any nan for any nan."""
    both = np.isnan(found) & np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    a, b = (np.where(both, 0, v).astype(np.float32).view(np.uint32) for v in (found, expected))
    np.testing.assert_array_equal(a, b)


def test_as_torch_rounds(device: str, golden: Callable[[str], Any]) -> None:
    cases = golden("core_rounding")["cases"]
    assert len(cases) == 6
    for case in cases:
        action, name = case["name"].split()
        if action == "decode":
            codes = np.array(case["input"], np.uint8)
            x = rl.Tensor.from_buffer(codes, name, codes.shape).to(device).float()
        else:
            x = rl.tensor(floats(case["input"]), device=device).to(name).float()
        same(x.cpu().numpy(), floats(case["output"]))


@pytest.mark.parametrize("name", NARROW)
def test_every_code_comes_back(device: str, name: str) -> None:
    dtype = as_dtype(name)
    kind: Any = np.uint8 if dtype.itemsize == 1 else np.uint16
    codes = np.arange(2 ** (8 * dtype.itemsize), dtype=kind)
    x = rl.Tensor.from_buffer(codes.view(np.uint8), dtype, codes.shape).to(device)
    values = x.float()
    again = np.frombuffer(values.to(dtype).raw_bytes(), kind)
    kept = ~np.isnan(values.cpu().numpy())
    np.testing.assert_array_equal(again[kept], codes[kept])
    assert np.isnan(values.to(dtype).float().cpu().numpy()[~kept]).all()


@pytest.mark.native
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_as_ml_dtypes_rounds(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = np.arange(0, 2**32, 65521, dtype=np.uint32)
    x = np.concatenate([bits.view(np.float32), (bits ^ np.uint32(0x8000)).view(np.float32)])
    with np.errstate(all="ignore"):
        expected = x.astype(getattr(ml_dtypes, name)).astype(np.float32)
    if name == "float8_e4m3fn":  # it gives nan above the largest value, torch the largest value
        over = (np.abs(x) > 448) & ~np.isnan(x)
        expected = np.where(over, np.copysign(np.float32(448), x), expected)
    with np.errstate(invalid="ignore"):  # signalling nan
        found = codec.decode(as_dtype(name), codec.encode(as_dtype(name), x))
    same(found, expected)


@pytest.mark.parametrize("name", NARROW)
def test_narrow_arithmetic_is_float32_rounded_once(device: str, name: str) -> None:
    a = rl.linspace(-3, 3, 50, device=device).to(name)
    b = rl.linspace(0.3, 2, 50, device=device).to(name)
    for op in (rl.add, rl.mul, rl.div, rl.maximum):
        found, wide = op(a, b), op(a.float(), b.float())
        assert found.dtype is as_dtype(name)
        same(found.float().cpu().numpy(), wide.to(name).float().cpu().numpy())
    same(a.exp().float().cpu().numpy(), a.float().exp().to(name).float().cpu().numpy())


@pytest.mark.parametrize("name", NARROW)
def test_moves_keep_the_bits(device: str, name: str) -> None:
    """Moving does not compute: a nan keeps its payload, and nothing is rounded."""
    dtype = as_dtype(name)
    kind: Any = np.uint8 if dtype.itemsize == 1 else np.uint16
    codes = np.arange(2 ** (8 * dtype.itemsize), dtype=kind)[::-1].copy()
    x = rl.Tensor.from_buffer(codes.view(np.uint8), dtype, codes.shape).to(device)
    index = rl.arange(len(codes), device=device)
    true = rl.ones(len(codes), dtype=rl.bool, device=device)
    other = rl.zeros(len(codes), dtype=dtype, device=device)
    other[:] = x
    for y in (
        x.clone(),
        x[index],
        x.gather(0, index),
        rl.cat([x[:5], x[5:]]),
        x.flip(0).flip(0),
        other,
        x.reshape(2, -1).t().contiguous().t().reshape(-1),
        rl.where(true, x, other),
        x[true],
        rl.pad(x, (2, 3))[2 : 2 + len(codes)],
    ):
        np.testing.assert_array_equal(np.frombuffer(y.raw_bytes(), kind), codes)


def test_widening_is_exact_and_narrowing_rounds_to_even(device: str) -> None:
    x = rl.tensor(
        [1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 1 + 2.0**-8 + 2.0**-20], device=device
    )
    assert x.bfloat16().tolist() == [1, 1 + 2.0**-6, -1, 1 + 2.0**-7]
    y = rl.tensor([2049.0, 2051.0, 65519.0, 65520.0, 1e-8], device=device)
    assert y.half().tolist() == [2048, 2052, 65504, float("inf"), 0]
    assert rl.tensor(0.1, device=device).bfloat16().cpu().double().item() == 0.10009765625

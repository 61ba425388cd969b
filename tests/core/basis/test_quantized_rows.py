"""What the row of a quantized type can say: most of ggml's types, by their formula alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.quantized import _blocks as blocks
from rushlight.core.tools.testing import assert_close, block_draws, draws

pytestmark = pytest.mark.native  # the reference is a package that no tab has

F = rl.nn.functional
FOURS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


@blocks(256, 10, scales="16 u8", qs="64 u8", d="f16", dmin="f16")
def q2_k(b: Any, i: Any) -> Any:
    scale, q = b.scales[i // 16], b.qs[i // 128 * 32 + i % 32] >> i // 32 % 4 * 2 & 3
    return b.d * (scale & 15) * q - b.dmin * (scale >> 4)


@blocks(256, 11, hmask="32 u8", qs="64 u8", scales="12 u8", d="f16")
def q3_k(b: Any, i: Any) -> Any:
    low, high = b.qs[i // 128 * 32 + i % 32] >> i // 32 % 4 * 2 & 3, b.hmask[i % 32] >> i // 32 & 1
    s = i // 16
    scale = (b.scales[s % 8] >> s // 8 * 4 & 15 | (b.scales[8 + s % 4] >> s // 4 * 2 & 3) << 4) - 32
    return b.d * scale * (low - 4 + high * 4)


def six_bits(b: Any, j: Any) -> tuple[Any, Any]:
    """Scale and minimum number j of q4_k and q5_k."""
    high, first = b.scales[8 + j % 4], j < 4
    scale = b.where(first, b.scales[j % 4] & 63, high & 15 | b.scales[j % 4] >> 6 << 4)
    least = b.where(first, b.scales[4 + j % 4] & 63, high >> 4 | b.scales[4 + j % 4] >> 6 << 4)
    return scale, least


@blocks(256, 12, d="f16", dmin="f16", scales="12 u8", qs="128 u8")
def q4_k(b: Any, i: Any) -> Any:
    scale, least = six_bits(b, i // 32)
    return b.d * scale * (b.qs[i // 64 * 32 + i % 32] >> i // 32 % 2 * 4 & 15) - b.dmin * least


@blocks(256, 13, d="f16", dmin="f16", scales="12 u8", qh="32 u8", qs="128 u8")
def q5_k(b: Any, i: Any) -> Any:
    scale, least = six_bits(b, i // 32)
    low, high = b.qs[i // 64 * 32 + i % 32] >> i // 32 % 2 * 4 & 15, b.qh[i % 32] >> i // 32 & 1
    return b.d * scale * (low | high << 4) - b.dmin * least


@blocks(32, 20, d="f16", qs="16 u8")
def iq4_nl(b: Any, i: Any) -> Any:
    return b.d * b.lookup(FOURS, b.qs[i % 16] >> i // 16 * 4 & 15)


@blocks(256, 23, d="f16", high="2 u8", low="4 u8", qs="128 u8")
def iq4_xs(b: Any, i: Any) -> Any:
    s = i // 32
    scale = (b.low[s // 2] >> s % 2 * 4 & 15 | (b.high[s // 4] >> s % 4 * 2 & 3) << 4) - 32
    return b.d * scale * b.lookup(FOURS, b.qs[s * 16 + i % 16] >> i // 16 % 2 * 4 & 15)


@blocks(256, 34, qs="48 u8", qh="4 u8", d="f16")
def tq1_0(b: Any, i: Any) -> Any:
    """Five to a byte as digits of base 3: 32 and 16 bytes of them; then four to a byte."""
    j, k = i % 80, i - 240
    place = b.where(i < 160, i % 32, b.where(i < 240, 32 + j % 16, 0))
    digit = b.where(i < 160, i // 32, b.where(i < 240, j // 16, 0))
    last = b.where(i < 240, 0, k)
    byte = b.where(i < 240, b.qs[place], b.qh[last % 4])
    power = b.lookup((1, 3, 9, 27, 81), b.where(i < 240, digit, last // 4))
    return b.d * (((byte * power & 255) * 3 >> 8) - 1)


@blocks(256, 35, qs="64 u8", d="f16")
def tq2_0(b: Any, i: Any) -> Any:
    return b.d * ((b.qs[i // 128 * 32 + i % 32] >> i // 32 % 4 * 2 & 3) - 1)


@blocks(32, 39, e="e8m0", qs="16 u8")
def mxfp4(b: Any, i: Any) -> Any:
    numbers = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
    return b.e * b.lookup(numbers, b.qs[i % 16] >> i // 16 * 4 & 15)


@blocks(128, 41, d="f16", bits="16 u8")
def q1_0(b: Any, i: Any) -> Any:
    return b.d * ((b.bits[i // 8] >> i % 8 & 1) * 2 - 1)


ROWS = (q2_k, q3_k, q4_k, q5_k, iq4_nl, iq4_xs, tq1_0, tq2_0, mxfp4)


@pytest.mark.parametrize("dtype", ROWS, ids=str)
def test_a_formula_gives_what_ggml_does(dtype: rl.DType, device: str) -> None:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    assert dtype.gguf is not None
    kind = GGMLQuantizationType(dtype.gguf)
    assert GGML_QUANT_SIZES[kind] == (dtype.block, dtype.itemsize)
    raw = block_draws(dtype.gguf, dtype, 12)
    if dtype is mxfp4:  # every power of two but the first two and last few
        raw[:, 0] = [2, 3, 60, 90, 110, 120, 127, 128, 150, 200, 240, 245]
    values = quants.dequantize(raw.reshape(6, -1), kind)
    t = rl.Tensor.from_buffer(raw.reshape(-1), dtype, values.shape).to(device)
    found = t.dequantize().numpy()
    if device == "webgpu":  # which may compute a * b - c without rounding the product
        assert_close(found, values, "product")
    else:
        assert np.array_equal(found.view(np.uint32), values.view(np.uint32))
    assert t.raw_bytes() == raw.tobytes()
    assert np.array_equal(t[1:4:2].dequantize().numpy(), found[1:4:2])


def test_a_block_of_128(device: str) -> None:
    """By NumPy alone: the reference has no code for it."""
    raw = block_draws(1, q1_0, 12)
    scales = raw[:, :2].copy().view(np.float16).astype(np.float32)
    signs = np.unpackbits(raw[:, 2:], axis=1, bitorder="little").astype(np.float32) * 2 - 1
    values = (scales * signs).reshape(4, 384)
    t = rl.Tensor.from_buffer(raw.reshape(-1), q1_0, values.shape).to(device)
    assert np.array_equal(t.dequantize().numpy(), values)
    x = draws(2, (3, 384)).astype(np.float32)
    found = F.linear(rl.tensor(x, device=device), t)
    assert_close(found, x.astype(np.float64) @ values.T.astype(np.float64), "product")


def test_a_formula_that_mixes_kinds_is_refused() -> None:
    @blocks(32, None, d="f16", qs="16 u8")
    def bad(b: Any, i: Any) -> Any:
        return b.qs[i % 16]

    t = rl.Tensor.from_buffer(bytes(18), bad, (1, 32))
    with pytest.raises(TypeError, match="the formula of bad gives int16, not float32"):
        t.dequantize()

"""The rows of the quantized types: values equal to ggml's, by their formula alone."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.basis import codebooks
from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.basis.quantized import _blocks as blocks
from rushlight.core.basis.unpacking import by_formula
from rushlight.core.tools.testing import assert_close, block_draws, draws

pytestmark = pytest.mark.native  # the references are packages that no tab has

F = rl.nn.functional
Array = npt.NDArray[Any]
ROWS = [dtype for dtype in DTYPES.values() if dtype.kind == "q"]
# Those that are llama.cpp's; others are of ONNX's packed weights.
GGML = [dtype for dtype in ROWS if dtype.gguf is not None]
# ggml has a number for it and no function: it is made of activations only.
UNREAD = {"q8_1"}
SEVERAL = {"q4_k", "q8_k", "mxfp4", "nvfp4", "iq1_m"}


def all_bytes(dtype: DType, count: int) -> Array:
    """Blocks of any bytes, their float16 and float32 scales of either sign and finite."""
    assert dtype.gguf is not None
    rng = np.random.default_rng(dtype.gguf)
    raw = rng.integers(0, 256, (count, dtype.itemsize)).astype(np.uint8)
    for field in dtype.fields.values():
        if field.kind in ("f16", "f32"):
            store = np.float16 if field.kind == "f16" else np.float32
            size = np.dtype(store).itemsize
            scale = rng.normal(0, 1, (count, 1)) * 10.0 ** rng.integers(-4, 4, (count, 1))
            raw[:, field.offset : field.offset + size] = scale.astype(store).view(np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(by_formula(dtype, raw)).all(axis=1)
    return raw[finite]


def by_ggml(library: ctypes.CDLL, dtype: DType, raw: Array) -> Array:
    """What ggml's dequantize_row_NAME makes of blocks."""
    assert dtype.gguf is not None
    library.ggml_type_name.restype = ctypes.c_char_p
    name = library.ggml_type_name(dtype.gguf).decode()
    assert name.lower() == dtype.name
    out = np.empty((len(raw), dtype.block), np.float32)
    function = getattr(library, f"dequantize_row_{name}")
    function(
        ctypes.c_void_p(raw.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(out.size)
    )
    return out


def same_bits(found: Array, expected: Array) -> bool:
    return found.dtype == expected.dtype == np.float32 and np.array_equal(
        found.view(np.uint32), expected.reshape(found.shape).view(np.uint32)
    )


@pytest.mark.parametrize("dtype", GGML, ids=str)
def test_sizes_and_values_are_those_of_ggml(dtype: DType, ggml: ctypes.CDLL) -> None:
    ggml.ggml_blck_size.restype = ggml.ggml_type_size.restype = ctypes.c_size_t
    sizes = ggml.ggml_blck_size(dtype.gguf), ggml.ggml_type_size(dtype.gguf)
    assert sizes == (dtype.block, dtype.itemsize)
    raw = all_bytes(dtype, 2000)
    assert len(raw) > 1500
    found = by_formula(dtype, raw)
    if dtype.name in UNREAD:
        scale = raw[:, :2].copy().view(np.float16).astype(np.float64)
        exact = scale * raw[:, 4:].view(np.int8).astype(np.float64)
        assert same_bits(found, exact.astype(np.float32))
    else:
        assert same_bits(found, by_ggml(ggml, dtype, raw))


@pytest.mark.parametrize("dtype", GGML, ids=str)
def test_values_are_those_of_the_gguf_package(dtype: DType) -> None:
    from gguf import GGMLQuantizationType, quants

    assert dtype.gguf is not None
    raw = all_bytes(dtype, 60)
    try:
        values = quants.dequantize(raw, GGMLQuantizationType(dtype.gguf))
    except (ValueError, NotImplementedError):
        assert dtype.name in {*UNREAD, "q8_k", "q1_0", "q2_0"}
    else:
        assert same_bits(by_formula(dtype, raw), values.astype(np.float32))


@pytest.mark.parametrize("dtype", ROWS, ids=str)
def test_every_device_reads_a_row(dtype: DType, device: str) -> None:
    """Dequantized to the same bits, and products by them, in odd numbers of rows."""
    rows, columns = 37, 3 * max(dtype.block, 64)
    raw = block_draws(dtype.gguf or 0, dtype, rows * columns // dtype.block)
    values = by_formula(dtype, raw).reshape(rows, columns)
    t = rl.Tensor.from_buffer(raw.reshape(-1), dtype, values.shape).to(device)
    assert t.raw_bytes() == raw.tobytes()
    assert same_bits(t[1:].dequantize().numpy(), values[1:])
    ids = rl.tensor([3, 36, 0], device=device)
    assert np.array_equal(F.embedding(ids, t).numpy(), values[[3, 36, 0]])
    # One row, a few and many are different shaders, which take long to compile.
    for lead in (1, 3, 65) if device == "cpu" or dtype.name in SEVERAL else (1, 3):
        x = draws(lead, (lead, columns)).astype(np.float32)
        exact = x.astype(np.float64) @ values.T.astype(np.float64)
        assert_close(F.linear(rl.tensor(x, device=device), t), exact, "product", label=str(lead))


@pytest.mark.parametrize("name", ["q4_k", "iq2_s"])
def test_experts_in_rows(name: str, device: str) -> None:
    """Matrices of experts one after another, as a mixture has them."""
    dtype, experts, rows = DTYPES[name], 3, 5
    raw = block_draws(3, dtype, experts * rows)
    values = by_formula(dtype, raw).reshape(experts, rows, dtype.block)
    t = rl.Tensor.from_buffer(raw.reshape(-1), dtype, values.shape).to(device)
    x, chosen = draws(4, (4, 1, dtype.block)).astype(np.float32), np.array([[2], [0], [1], [2]])
    found = F.linear_experts(rl.tensor(x, device=device), t, rl.tensor(chosen, device=device))
    exact = np.einsum("nk,nok->no", x[:, 0].astype(np.float64), values[chosen[:, 0]])
    assert_close(found, exact.reshape(found.shape), "product")


@pytest.mark.parametrize("name", ["iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s"])
def test_codebooks_are_those_of_the_gguf_package(name: str) -> None:
    from gguf import quants

    book, reference = getattr(codebooks, name), getattr(quants, name.upper())
    reference.init_grid()
    assert (reference.grid_shape[1], len(reference.grid_map)) == (book.dims, book.levels)
    codes = book.codes.reshape(reference.grid_shape)
    assert np.array_equal(np.array(reference.grid_map)[codes], reference.grid.reshape(codes.shape))
    shifts = np.arange(0, 32, book.bits)
    unpacked = book.words[:, None] >> shifts.astype(np.uint32) & np.uint32((1 << book.bits) - 1)
    assert np.array_equal(unpacked.reshape(-1), book.codes)


def test_a_formula_whose_neighbours_have_nothing_in_common(device: str) -> None:
    """Two scales, positions three apart, divisors that are stored, choices by element."""

    @blocks(64, None, d="f16", qs="40 u8", m="f16", n="u8")
    def odd(b: Any, i: Any) -> Any:
        j = i * 3 % 40
        more = b.m * (b.qs[39 - j] % (b.n + 1)) + b.d * (b.qs[j] // (b.n + 1))
        return more + b.where(i % 5 < b.n % 4, b.m, b.d * 0.5) * b.lookup((3, -1), i // 3 % 2)

    raw = draws(1, (12, 45), 0, 256).astype(np.uint8)
    raw[:, [1, 43]] = 0x3C
    values = by_formula(odd, raw).reshape(6, 128)
    t = rl.Tensor.from_buffer(raw.reshape(-1), odd, values.shape).to(device)
    assert t.raw_bytes() == raw.tobytes()
    assert_close(t.dequantize(), values.astype(np.float64), "product")
    x = draws(2, (1, 128)).astype(np.float32)
    assert_close(
        F.linear(rl.tensor(x, device=device), t),
        x.astype(np.float64) @ values.T.astype(np.float64),
        "product",
    )


def test_a_formula_that_mixes_kinds_is_refused() -> None:
    @blocks(32, None, d="f16", qs="16 u8")
    def bad(b: Any, i: Any) -> Any:
        return b.qs[i % 16]

    t = rl.Tensor.from_buffer(bytes(18), bad, (1, 32))
    with pytest.raises(TypeError, match="the formula of bad gives int16, not float32"):
        t.dequantize()


def test_a_formula_with_two_codebooks_is_refused() -> None:
    @blocks(32, None, d="f16", qs="16 u8")
    def bad(b: Any, i: Any) -> Any:
        first, second = b.lookup(codebooks.iq2_s, i), b.lookup(codebooks.iq1_s, i)
        return b.d * (first + second)

    t = rl.Tensor.from_buffer(bytes(18), bad, (1, 32))
    assert t.dequantize().numpy().any() == np.False_
    with pytest.raises(TypeError, match="the formula of bad has two codebooks"):
        t.to("webgpu").dequantize()

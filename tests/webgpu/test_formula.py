"""Quantized types on webgpu: their planes, and the WGSL that is made of their formulas."""

from __future__ import annotations

import re

import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.codegen import formula, quads
from rushlight.core.backends.webgpu.codegen.planes import codebook_of, is_whole, planes_of
from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.basis.element import FIELD_BYTES

ROWS = [dtype for dtype in DTYPES.values() if dtype.kind == "q"]
F = rl.nn.functional


@pytest.mark.parametrize("dtype", ROWS, ids=str)
def test_planes_hold_every_byte_once(dtype: DType) -> None:
    """Aligned, with words of their own for what has a bit of every element."""
    planes = planes_of(dtype)
    held = [
        b for p in planes for part in p.parts for b in range(part.start, part.start + part.nbytes)
    ]
    assert sorted(held) == list(range(dtype.itemsize))
    for plane in planes:
        assert plane.nbytes in (1, 2) or plane.nbytes % 4 == 0
        ends = [0, *(part.at + part.nbytes for part in plane.parts)]
        assert [part.at for part in plane.parts] == ends[:-1] and 0 <= plane.nbytes - ends[-1] < 4
        for part in plane.parts:
            field = next(f for f in dtype.fields.values() if f.offset == part.start)
            assert part.at % FIELD_BYTES[field.kind] == 0
    assert is_whole(dtype) == (codebook_of(dtype) is not None)
    assert quads.bindings_of(dtype) <= 3  # of eight: x, bias, index, result and status beside them


@pytest.mark.parametrize("dtype", ROWS, ids=str)
def test_a_run_is_computed_four_elements_at_a_time(dtype: DType) -> None:
    """Scales once, a point of a codebook once, and no element by itself."""
    text = "\n".join(formula.dot(dtype).lines)
    scales = sum(f.count or 1 for f in dtype.fields.values() if f.kind in ("f16", "f32"))
    assert text.count("unpack2x16float") + text.count("bitcast<f32>") <= max(scales, 1)
    book = codebook_of(dtype)
    assert text.count("= codebook[") == (formula.RUN // book.dims if book else 0)
    # Of four lanes' numbers, eight quads at most are added up; lanes are never put together.
    assert text.count("fma(") + text.count("* vec4<f32>(") <= 4 * formula.RUN // 4
    assert not re.search(r"vec4<f32>\(n\d+,", text)


def test_a_profile_says_which_blocks_lie_whole() -> None:
    for name, label in (("q4_k", "matmul_blocks"), ("iq1_s", "matmul_blocks (whole)")):
        dtype = DTYPES[name]
        w = rl.Tensor.from_buffer(bytes(3 * dtype.itemsize), name, (3, dtype.block)).to("webgpu")
        x = rl.ones(1, dtype.block, device="webgpu")
        with rl.profile("webgpu", ceilings=False) as profile:
            F.linear(x, w).numpy()
        found = {row["kernel"] for row in profile.summary()["rows"] if row["op"] == "linear"}
        assert found == {label}

"""Operators over packed weights: they multiply by blocks, which `packing` makes at loading.

A weight that stayed as the file has it, because it is computed or of a form that no blocks have, is
unpacked in the course of the call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.basis.dtype import float32, int32, int64, uint8
from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.element_types import UINT8
from rushlight.core.onnx.operators.microsoft.entering import contrib
from rushlight.core.onnx.registry import Call
from rushlight.core.tensor.tensor import from_numpy


def bits_of(x: Any, bits: int) -> Any:
    """(..., n * 8 / bits) numbers of bytes (..., n), the first in the lowest bits."""
    wide = x.to(int32)
    if bits == 8:
        return wide
    each = [
        rl.bitwise_and(rl.bitwise_right_shift(wide, k), (1 << bits) - 1) for k in range(0, 8, bits)
    ]
    return rl.stack(each, -1).reshape(*x.shape[:-1], x.shape[-1] * 8 // bits)


def _zeros_of(call: Call, zeros: Any, place: int, bits: int, count: int) -> Any:
    """Zero points (..., count) as floats: packed ones of the file, or floats as they are."""
    if zeros is None:
        return float(1 << bits - 1)
    if call.kinds[place] is not UINT8:
        return zeros
    return bits_of(zeros, bits)[..., :count].to(float32)


def unpacked_weight(
    call: Call, codes: Any, scales: Any, zeros: Any, bits: int, place: int, groups: Any = None
) -> Any:
    """(..., rows, columns) of codes (..., rows, groups, bytes) in float32, columns as stored.

    place: that of the zero points among the inputs. groups: the group of each column, if it is not
    the one that it lies in.
    """
    lead, count = codes.shape[:-2], codes.shape[-2]
    numbers = bits_of(codes, bits).to(float32)
    scales = scales.to(float32).reshape(*lead, count)
    zeros = _zeros_of(call, zeros, place, bits, count)
    zeros = zeros if isinstance(zeros, float) else zeros.reshape(*lead, count)
    flat = numbers.reshape(*lead, count * numbers.shape[-1])
    if groups is not None:
        flat = flat[..., : groups.shape[0]]
        where = groups.to(int64)
        zeros = zeros if isinstance(zeros, float) else rl.index_select(zeros, -1, where)
        return (flat - zeros) * rl.index_select(scales, -1, where)
    zeros = zeros if isinstance(zeros, float) else zeros.unsqueeze(-1)
    return ((numbers - zeros) * scales.unsqueeze(-1)).reshape(flat.shape)


def padded_to(x: Any, width: int) -> Any:
    """x with zeros after its last dim's elements, up to `width`."""
    return x if x.shape[-1] == width else rl.pad(x, (0, width - x.shape[-1]))


def by_blocks(x: Any, blocks: Any, scales: Any, zeros: Any, bits: int, bias: Any = None) -> Any:
    """x times the transposed blocks; scales and zeros are there if blocks lack the zero points."""
    wide = padded_to(x, blocks.shape[-1])
    result = rl.linear(wide, blocks, bias)
    if scales is None:
        return result
    # Blocks hold (code - middle) * scale: each group lacks (middle - zero) * scale.
    less = corrections(blocks.shape[0], scales, zeros, bits)
    sums = rl.sum(wide.reshape(*wide.shape[:-1], less.shape[1], -1), -1)
    return result + rl.linear(sums, less)


def corrections(rows: int, scales: Any, zeros: Any, bits: int) -> Any:
    """(rows, groups): what a group's elements lack where blocks have no zero points."""
    scales = scales.to(float32).reshape(rows, -1)
    return (float(1 << bits - 1) - zeros.to(float32).reshape(scales.shape)) * scales


@contrib("MatMulNBits", stored=(1,))
def matmul_nbits(
    call: Call,
    x: Any,
    weight: Any,
    scales: Any = None,
    zeros: Any = None,
    groups: Any = None,
    bias: Any = None,
) -> Any:
    """The product with a transposed weight of 2, 4 or 8 bits, plus a bias."""
    call.ignore("accuracy_level")
    inside, outside = call.int("K"), call.int("N")
    bits, size = call.int("bits", 4), call.int("block_size")
    prepacked = call.int("weight_prepacked", 0)
    if bits not in (2, 4, 8) or prepacked:
        told = f"bits={bits} with weight_prepacked={prepacked} is not supported"
        raise call.fail(f"{told}; supported: 2, 4 and 8 bits that are not packed for a device")
    if x.shape[-1] != inside:
        raise call.fail(f"the input {x.shape} has not K={inside} features")
    if groups is not None and zeros is not None:
        raise call.fail("g_idx with zero points is not supported", "leave one of them out")
    if weight.dtype.kind == "q":
        return by_blocks(x, weight, scales, zeros, bits, bias)
    if not weight.numel():  # a projection that is left out
        empty = rl.zeros((*x.shape[:-1], outside), dtype=x.dtype, device=x.device)
        return empty if bias is None else empty + bias
    codes = weight.reshape(outside, -(-inside // size), size * bits // 8)
    table = unpacked_weight(call, codes, scales, zeros, bits, 3, groups)
    return rl.linear(padded_to(x, table.shape[-1]), table, bias)


@contrib("GatherBlockQuantized", stored=(0,))
def gather_blocks(
    call: Call, data: Any, indices: Any, scales: Any = None, zeros: Any = None
) -> Any:
    """Rows of a packed table; zeros for an index that is out of range."""
    bits, size = call.int("bits", 4), call.int("block_size", 128)
    rank = 2 if data.dtype.kind == "q" else data.ndim
    axis = call.int("gather_axis", 0) % rank
    along = call.int("quantize_axis", 1) % rank
    if bits not in (2, 4, 8):
        raise call.fail(f"bits={bits} is not supported; supported: 2, 4 and 8")
    count = data.shape[axis]
    places = indices.to(int64)
    places = rl.where(places < 0, places + count, places)
    inside = rl.logical_and(places >= 0, places < count)
    places = rl.clamp(places, 0, max(count - 1, 0))
    if data.dtype.kind == "q":
        result = F.embedding(places, data)
        if scales is not None:
            less = F.embedding(places, corrections(count, scales, zeros, bits))
            result = result + rl.repeat_interleave(less, result.shape[-1] // less.shape[-1], -1)
    else:
        result = _gathered(call, data, places, scales, zeros, axis, along, bits, size)
    shape = (*(1,) * axis, *inside.shape, *(1,) * (result.ndim - axis - inside.ndim))
    return rl.where(inside.reshape(shape), result, 0.0)


def _gathered(
    call: Call,
    data: Any,
    places: Any,
    scales: Any,
    zeros: Any,
    axis: int,
    along: int,
    bits: int,
    size: int,
) -> Any:
    """Slices of a table that is packed as the file has it."""
    flat = places.reshape(-1)
    packed = call.kinds[0] is UINT8
    middle = 1 << bits - 1 if packed else 0
    if axis != along:  # first the slices, then their numbers
        data = rl.index_select(data, axis, flat)
        scales = rl.index_select(scales, axis, flat)
        zeros = None if zeros is None else rl.index_select(zeros, axis, flat)
    numbers = bits_of(data, bits) if packed else data.to(int32)
    if zeros is not None and packed:
        zeros = bits_of(zeros, bits)[..., : scales.shape[-1]]

    def spread(x: Any) -> Any:
        wide = rl.repeat_interleave(x.to(float32), size, along)
        return wide.narrow(along, 0, numbers.shape[along])

    less = float(middle) if zeros is None else spread(zeros)
    values = (numbers.to(float32) - less) * spread(scales)
    if axis == along:
        values = rl.index_select(values, axis, flat)
    return values.reshape(*values.shape[:axis], *places.shape, *values.shape[axis + 1 :])


# The values of four bits that bitsandbytes gives them, of size one at most: fp4, and the quantiles
# of a normal distribution (Dettmers et al., 2023, appendix E).
_FP4 = (0.0, 0.0052083333, 0.6666666667, 1.0, 0.3333333333, 0.5, 0.1666666667, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip


@contrib("MatMulBnb4", stored=(1,))
def matmul_bnb4(call: Call, x: Any, weight: Any, scales: Any) -> Any:
    """The product with a weight whose four bits name one of 16 floats of bitsandbytes."""
    call.ignore("training_mode")
    inside, outside, size = call.int("K"), call.int("N"), call.int("block_size")
    kind = call.int("quant_type")
    if kind not in (0, 1):
        raise call.fail(f"quant_type={kind} is not supported; supported: 0 (fp4), 1 (nf4)")
    values = _NF4 if kind else (*_FP4, *(-v for v in _FP4))
    table = from_numpy(np.array(values, np.float32)).to(device=x.device)
    wide = weight.to(uint8).to(int32).reshape(-1)
    high, low = rl.bitwise_right_shift(wide, 4), rl.bitwise_and(wide, 15)
    codes = rl.stack([high, low], -1).reshape(-1)[: inside * outside]
    numbers = rl.index_select(table, 0, codes.to(int64))
    each = rl.repeat_interleave(scales.to(float32), size, 0)[: inside * outside]
    matrix = (numbers * each).reshape(outside, inside)
    return rl.linear(x, matrix) if call.flag("transB", True) else rl.matmul(x, matrix)

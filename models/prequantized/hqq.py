"""HQQ (Badri and Shaji, 2023): groups of a weight's numbers with a scale and a fractional zero.

The numbers lie as rows of groups (axis 1) or as columns (axis 0), packed so that each part of the
rows has the same bits of the bytes, or of words of 32 bits for three bits. The sizes and names of a
layer are stored as tensors beside it; those of hqq's own qmodel.pt, which has them as plain values,
come as such tensors too. Scales and zeros may be quantized in the same way.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.prequantized.rows import minimum_blocks

Array = npt.NDArray[Any]
_PARTS = frozenset(
    """
    W_q nbits group_size shape scale zero axis packing unpack_view_dtype view_as_float quant_scale
    quant_zero compute_dtype offload_meta encoded_state_dict stores_quant_config channel_wise
    optimize round_zero zero_scale zero_q scale_q
""".split()
)
# Bits of a number, and bits of the words that hold them.
_PACKINGS = {
    "8bit_u8": (8, 8),
    "4bit_u8": (4, 8),
    "3bit_32": (3, 30),
    "2bit_u8": (2, 8),
    "1bit_u8": (1, 8),
}


def hqq(
    tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a checkpoint, its packed weights as plain ones or as blocks of q4_1.

    Raises FormatError for a layer whose sizes do not fit its numbers.
    """
    tensors = {_flat_name(name, tensors): t for name, t in tensors.items()}
    for name, t in tensors.items():
        stem, _, kind = name.rpartition(".")
        inner = stem.rpartition(".")[0] if stem.endswith((".meta_zero", ".meta_scale")) else stem
        if kind == "W_q":
            yield f"{stem}.weight", _Layer(stem, tensors).weight(dtype)
        elif f"{inner}.W_q" not in tensors or (inner == stem and kind not in _PARTS):
            yield name, t


def _flat_name(name: str, names: Container[str]) -> str:
    """The name without the `meta` in which hqq's older files have what belongs to W_q."""
    stem, middle, part = name.partition(".meta.")
    return f"{stem}.{part}" if middle and f"{stem}.W_q" in names else name


class _Layer:
    """A layer's numbers, with what is stored of their sizes; or those of its scales or zeros."""

    def __init__(self, stem: str, tensors: Mapping[str, Tensor], q: Tensor | None = None) -> None:
        self.stem, self.tensors = stem, tensors
        self.words = self.stored("W_q") if q is None else q
        shape = [int(n) for n in self.stored("shape").reshape(-1).tolist()]
        count = 1
        for n in shape:
            count *= n
        codes = np.asarray(self.stored("packing").numpy(), np.uint8)
        name = bytes(codes).decode("ascii", "replace")
        if name not in _PACKINGS or len(shape) != 2 or not 0 < count < 1 << 48:
            raise FormatError(
                f"{stem}: packing {brief(name)} of shape {brief(shape)} is not supported; "
                f"supported: {', '.join(_PACKINGS)} of two sizes"
            )
        self.axis, group = self.number("axis", 1), self.number("group_size", 0)
        if not self.number("channel_wise", 1) or not 0 < group <= count or count % group:
            group = shape[0] if self.axis == 0 else shape[1]  # one of each column or row
        rows, columns = (count // group, group)[:: -1 if self.axis == 0 else 1]
        self.name, self.shape, self.group = name, shape, group
        self.rows, self.columns = rows, columns

    def stored(self, part: str) -> Tensor:
        if f"{self.stem}.{part}" not in self.tensors:
            raise FormatError(f"the checkpoint has {self.stem}.W_q, but no {self.stem}.{part}")
        return self.tensors[f"{self.stem}.{part}"]

    def number(self, part: str, default: int) -> int:
        t = self.tensors.get(f"{self.stem}.{part}")
        if t is None:
            return default
        if t.numel() != 1:
            raise FormatError(f"{self.stem}.{part} is {t.shape}, not one number")
        return int(t.reshape(1)[0].item())

    def weight(self, dtype: DType) -> Tensor:
        """(numbers - zero) * scale in the dtype of the weight, as hqq computes it."""
        numbers = self.numbers()
        blocks = self.name == "4bit_u8" and self.axis == 1 and not self.group % 32
        blocks = blocks and dtype.itemsize == 2
        wide = float32 if blocks else dtype
        zero, scale = self._factor("zero", wide), self._factor("scale", wide)
        fits = {(1, self.columns), (self.rows, 1), (1, 1), ()}
        if zero.shape not in fits or scale.shape not in fits:
            raise FormatError(
                f"{self.stem}: zero {zero.shape} and scale {scale.shape} do not fit numbers "
                f"({self.rows}, {self.columns})"
            )
        if blocks and scale.shape == zero.shape == (self.rows, 1):
            q, least = numbers.reshape(self.shape), (-zero * scale).numpy()
            packed = minimum_blocks(self.stem, q, scale.numpy(), least)
            if packed is not None:
                return packed
        zero, scale = zero.to(dtype=dtype), scale.to(dtype=dtype)
        plain = tensor(np.ascontiguousarray(numbers, np.float32)).to(dtype=dtype)
        return ((plain - zero) * scale).reshape(self.shape)

    def numbers(self) -> Array:
        """The integers (rows, columns), each group a row or, with axis 0, a column."""
        bits, word_bits = _PACKINGS[self.name]
        each, word = word_bits // bits, np.dtype(np.uint32 if self.name == "3bit_32" else np.uint8)
        raw: Array = np.frombuffer(self.words.raw_bytes(), word)
        needed = -(-self.rows // each) * self.columns
        if raw.size != needed:
            raise FormatError(
                f"{self.stem}.W_q has {raw.size} words; {self.rows} rows of {self.columns} numbers "
                f"in {self.name} take {needed}"
            )
        matrix, most = raw.reshape(-1, self.columns), word.type((1 << bits) - 1)
        shifts = [word.type(word_bits - bits * (i + 1)) for i in range(each)]
        parts = [matrix >> shift & most for shift in shifts]
        numbers: Array = np.concatenate(parts)[: self.rows]
        return numbers

    def _factor(self, part: str, dtype: DType) -> Tensor:
        """The scale or the zero: as stored, one of the two in zero_scale, or quantized itself."""
        pair = self.tensors.get(f"{self.stem}.zero_scale")
        if pair is not None and (pair.ndim < 1 or len(pair) != 2):
            raise FormatError(f"{self.stem}.zero_scale is {pair.shape}; it must be two of a shape")
        stacked = None if pair is None else pair[0 if part == "zero" else 1]
        if not self.number(f"quant_{part}", 0):
            return (self.stored(part) if stacked is None else stacked).to(dtype=dtype)
        meta = f"{self.stem}.meta_{part}"
        if f"{meta}.shape" not in self.tensors:
            raise FormatError(
                f"{self.stem}.quant_{part} is true, but there is no meta_{part}",
                hint="save the model with hqq's save_quantized, or quantize it without "
                f"quant_{part}",
            )
        words = self.stored(f"{part}_q") if stacked is None else stacked.contiguous()
        return _Layer(meta, self.tensors, words).weight(dtype)

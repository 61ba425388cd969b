"""GPTQ, AWQ and what auto-round packs like them: integers in words of 32 bits, scales and zeros.

Layouts: GPTQ (Frantar et al., 2022) as AutoGPTQ packs it, whose zeros are stored less one, and as
GPTQModel does ("gptq_v2"), whose zeros are not; AWQ (Lin et al., 2023) in the order of its "gemm"
kernels. Numbers that no word holds a whole number of are packed without gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.prequantized.rows import bit_stream, integer_blocks, made, wrong

Array = npt.NDArray[Any]
PARTS = ("qweight", "qzeros", "scales", "g_idx")
_GPTQ_BITS, _ROUND_BITS, _AWQ_BITS = (2, 3, 4, 8), (2, 3, 4, 5, 6, 7, 8), (4,)
# Column of each four bits of a word, from the lowest, in AWQ's order.
_AWQ = np.array([0, 2, 4, 6, 1, 3, 5, 7])


class Packed:
    """The reader of one quantization_config.

    less: what the stored zeros lack. own: whether layers have bits and groups of their own, which
    their shapes tell then.
    """

    def __init__(
        self, given: Mapping[str, Any], *, awq: bool, less: int, known: tuple[int, ...], own: bool
    ) -> None:
        self.awq, self.less, self.known, self.own = awq, less, known, own
        self.bits = given.get("bits", given.get("w_bit"))
        if type(self.bits) is not int or self.bits not in known:
            raise wrong("bits", self.bits, " or ".join(map(str, known)))
        size = given.get("group_size", given.get("q_group_size", -1))
        size = -1 if size is None else size
        if type(size) is not int or size < -1 or size == 0:
            raise wrong("group_size", size, "positive, or -1 for all inputs")
        self.group: int = size

    def __call__(self, tensors: Mapping[str, Tensor], dtype: DType) -> Iterator[tuple[str, Tensor]]:
        """The tensors of a checkpoint, its packed weights as plain ones or as blocks."""
        for name, t in tensors.items():
            stem, _, kind = name.rpartition(".")
            if kind == "qweight":
                stored = {p: tensors[f"{stem}.{p}"] for p in PARTS if f"{stem}.{p}" in tensors}
                yield f"{stem}.weight", self._weight(stem, stored, dtype)
            elif kind not in PARTS or f"{stem}.qweight" not in tensors:
                yield name, t

    def _layer(self, name: str, stored: Mapping[str, Tensor]) -> tuple[int, int, int, int]:
        """Bits, inputs, outputs and group size of a layer, by its shapes where they may differ."""
        for kind in ("qzeros", "scales"):
            if kind not in stored:
                raise FormatError(f"the checkpoint has {name}.qweight, but no {name}.{kind}")
        words, zeros, scales = (stored[p].shape for p in ("qweight", "qzeros", "scales"))
        rows, columns = words if len(words) == 2 else (0, 0)
        bits: int = self.bits
        if self.own and len(zeros) == len(scales) == 2 and scales[1]:
            bits = zeros[1] * 32 // scales[1]
            if bits not in self.known:
                raise FormatError(
                    f"{name}: {bits} bits are not supported; supported: "
                    f"{', '.join(map(str, self.known))}"
                )
        inside, outside = (rows, columns * 32 // bits) if self.awq else (rows * 32 // bits, columns)
        size = inside if self.group == -1 else self.group
        if self.own and len(scales) == 2 and scales[0] and -(-inside // size) != scales[0]:
            size = -(-inside // scales[0])
        groups = -(-inside // max(size, 1))
        shapes = {"qzeros": (groups, outside * bits // 32), "scales": (groups, outside)}
        for kind, shape in shapes.items():
            if stored[kind].shape != shape or outside * bits % 32 or len(words) != 2:
                raise FormatError(
                    f"{name}.qweight of shape {words} with groups of {self.group} needs "
                    f"{kind} of shape {shape}, not {stored[kind].shape}"
                )
        kinds = [stored[p].dtype.name for p in ("qweight", "qzeros")]
        if kinds != ["int32", "int32"] or stored["scales"].dtype.kind != "f":
            raise FormatError(f"{name}: qweight and qzeros must be int32, scales floating-point")
        return bits, inside, outside, size

    def _weight(self, name: str, stored: Mapping[str, Tensor], dtype: DType) -> Tensor:
        """(out, in) of one layer."""
        bits, inside, outside, size = self._layer(name, stored)
        words = stored["qweight"].numpy()
        zeros = self._columns(stored["qzeros"].numpy(), bits, outside)
        zeros = (zeros + np.uint8(self.less)) & np.uint8((1 << bits) - 1)
        of = plain = np.arange(inside) // max(size, 1)
        if "g_idx" in stored and not self.awq:
            of = stored["g_idx"].numpy()
            known = of.shape == (inside,) and of.dtype.kind == "i"
            if not known or not ((of >= 0) & (of < len(zeros))).all():
                raise FormatError(f"{name}.g_idx must be {inside} numbers below {len(zeros)}")
        scales = stored["scales"].float().numpy()
        middle = 1 << bits - 1

        def numbers(at: int, end: int) -> Array:  # (some of out, in)
            if self.awq:
                cut = slice(at * bits // 32, end * bits // 32)
                return self._columns(words[:, cut], bits, end - at).T
            return bit_stream(words[:, at:end].T, bits, inside)

        def rows(at: int, end: int) -> Array:
            less = numbers(at, end).astype(np.int16) - zeros[:, at:end].T[:, of]
            values: Array = less.astype(np.float32) * scales.T[at:end][:, of]
            return values

        if (zeros == middle).all() and np.array_equal(of, plain):
            blocks = integer_blocks(
                name,
                bits,
                np.ascontiguousarray(scales.T),
                inside,
                lambda at, end: numbers(at, end).astype(np.int16) - middle,
            )
            if blocks is not None:
                return blocks
        return made((outside, inside), dtype, rows, 32)

    def _columns(self, words: Array, bits: int, count: int) -> Array:
        """The numbers (rows, count) of words in whose rows they lie."""
        numbers = bit_stream(words, bits, count)
        if self.awq:
            numbers = numbers.reshape(len(numbers), -1, 8)[..., np.argsort(_AWQ)]
        return numbers.reshape(len(words), -1)


def gptq(given: Mapping[str, Any]) -> Packed:
    """The reader of a quantization_config of GPTQ or GPTQModel."""
    form = given.get("checkpoint_format") or "gptq"
    if form not in ("gptq", "gptq_v2"):
        raise wrong("checkpoint_format", form, "gptq or gptq_v2")
    return Packed(
        given,
        awq=False,
        less=0 if form == "gptq_v2" else 1,
        known=_GPTQ_BITS,
        own=bool(given.get("dynamic")),
    )


def awq(given: Mapping[str, Any]) -> Packed:
    """The reader of a quantization_config of AWQ."""
    version = str(given.get("version") or given.get("format") or "gemm").lower()
    if version != "gemm":
        raise wrong("version", version, "gemm")
    return Packed(given, awq=True, less=0, known=_AWQ_BITS, own=False)


def rounded(given: Mapping[str, Any], form: str) -> Packed:
    """The reader of auto-round's packing formats: GPTQ's, AWQ's, or its own with plain zeros."""
    if "awq" in form:
        return Packed(given, awq=True, less=0, known=_AWQ_BITS, own=True)
    old = form in ("auto_round:auto_gptq", "auto_round:gptq", "auto_gptq")
    return Packed(given, awq=False, less=int(old), known=_ROUND_BITS, own=True)

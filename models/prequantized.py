"""Checkpoints whose config.json has a `quantization_config`: fp8, GPTQ and AWQ, dequantized.

Layouts: fp8 with a scale per block as DeepSeek-V3 publishes it (2024), or per tensor; GPTQ (Frantar
et al., 2022) as AutoGPTQ packs it, whose zeros are stored less one; AWQ (Lin et al., 2023) in the
order of its "gemm" kernels. Values are made in float32, a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType, as_dtype, float32
from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.ops import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
METHODS = ("awq", "fp8", "gptq")
_PIECE = 1 << 22  # elements that are made at a time
_FLOATS = ("float16", "bfloat16", "float32")
# Column of each four bits of a word, from the lowest, in AWQ's order.
_AWQ = np.array([0, 2, 4, 6, 1, 3, 5, 7])
# Of activations, which stay in floating point here.
_UNUSED = (".input_scale", ".activation_scale", ".input_scale_ub")


def dequantized(
    config: dict[str, Any], tensors: Mapping[str, Tensor], dtype: DType | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(config.json without its `quantization_config`, the tensors of plain weights).

    dtype: of the weights; by default the one that config.json names, or else float32. Raises
    LoadError for a method that is not supported, FormatError for a key or a shape that does not
    fit.
    """
    given, rest = config["quantization_config"], dict(config)
    del rest["quantization_config"]
    if not isinstance(given, dict):
        raise FormatError(f"config.json: quantization_config is {brief(given)}, not an object")
    method = given.get("quant_method")
    if method not in METHODS:
        raise LoadError(
            f"config.json: quantization_config.quant_method {brief(method)} is not supported; "
            f"supported: {', '.join(METHODS)}",
            hint="use the model's unquantized weights or a GGUF file",
        )
    wanted = dtype or named_dtype(config)
    make = _fp8 if method == "fp8" else _Packed(str(method), given)
    return rest, dict(make(tensors, given, wanted))


def named_dtype(config: Mapping[str, Any]) -> DType:
    """The dtype that config.json names, or else float32."""
    named = config.get("dtype") or config.get("torch_dtype")
    return as_dtype(named) if isinstance(named, str) and named in _FLOATS else float32


def _fp8(
    tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
) -> Iterator[tuple[str, Tensor]]:
    block = given.get("weight_block_size")
    sizes = isinstance(block, list) and len(block) == 2
    if block is not None and not (sizes and all(type(n) is int and n > 0 for n in block)):
        raise _wrong("weight_block_size", block, "two positive numbers")
    scales = {f"{name}{end}" for name in tensors for end in ("_scale_inv", "_scale")}
    for name, t in tensors.items():
        if name in scales or name.endswith(_UNUSED):
            continue
        if not t.dtype.name.startswith("float8"):
            yield name, t
            continue
        scale = tensors.get(f"{name}_scale_inv", tensors.get(f"{name}_scale"))
        if scale is None:
            yield name, t.to(dtype=dtype)
        else:
            yield name, _scaled(name, t, scale.float().numpy(), block, dtype)


def _scaled(name: str, t: Tensor, scale: Array, block: list[int] | None, dtype: DType) -> Tensor:
    """A tensor (..., out, in) times a scale for each block, each row, or all."""
    if scale.size == 1:
        return (t.float() * float(scale.reshape(()))).to(dtype=dtype)
    *outer, rows, columns = t.shape if t.ndim > 1 else (0, 0)
    tall, wide = block or (1, columns)
    fits = (*outer, -(-rows // max(tall, 1)), -(-columns // max(wide, 1)))
    if block is None and scale.shape == (rows,) and t.ndim == 2:
        scale = scale[:, None]
    if scale.shape != fits or t.ndim < 2:
        raise FormatError(
            f"{name!r:.100} of shape {t.shape} has scales of shape {scale.shape}; blocks of "
            f"{(tall, wide)} need {fits}"
        )
    flat, each = t.reshape(-1, columns), scale.reshape(-1, scale.shape[-1])
    across = np.arange(columns) // wide
    found = []
    step = max(_PIECE // max(columns, 1), 1)
    for at in range(0, flat.shape[0], step):
        piece = flat[at : at + step].float().numpy()
        row = np.arange(at, at + len(piece))
        own = each[row // rows * fits[-2] + row % rows // tall]
        found.append(tensor(piece * own[:, across]).to(dtype=dtype))
    return (cat(found) if found else flat.to(dtype=dtype)).reshape(t.shape)


def _wrong(key: str, value: Any, needed: str) -> FormatError:
    return FormatError(
        f"config.json: quantization_config.{key} is {brief(value)}; it must be {needed}"
    )


class _Packed:
    """GPTQ and AWQ: integers in words of 32 bits, with scales and zeros for groups of inputs."""

    def __init__(self, method: str, given: Mapping[str, Any]) -> None:
        self.awq = method == "awq"
        self.bits = given.get("bits", given.get("w_bit"))
        known = (4,) if self.awq else (2, 4, 8)
        if type(self.bits) is not int or self.bits not in known:
            raise _wrong("bits", self.bits, " or ".join(map(str, known)))
        size = given.get("group_size", given.get("q_group_size", -1))
        if type(size) is not int or size < -1 or size == 0:
            raise _wrong("group_size", size, "positive, or -1 for all inputs")
        self.group: int = size
        version = str(given.get("version", "gemm")).lower()
        if self.awq and version != "gemm":
            raise _wrong("version", version, "gemm")
        form = given.get("checkpoint_format", "gptq")
        if not self.awq and form not in ("gptq", "gptq_v2"):
            raise _wrong("checkpoint_format", form, "gptq or gptq_v2")
        if given.get("dynamic"):
            raise _wrong("dynamic", given["dynamic"], "empty")
        self.less = 0 if self.awq or form == "gptq_v2" else 1

    def __call__(
        self, tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
    ) -> Iterator[tuple[str, Tensor]]:
        parts = ("qweight", "qzeros", "scales", "g_idx")
        for name, t in tensors.items():
            stem, _, part = name.rpartition(".")
            if part == "qweight":
                own = {p: tensors[f"{stem}.{p}"] for p in parts if f"{stem}.{p}" in tensors}
                yield f"{stem}.weight", self._weight(stem, own, dtype)
            elif part not in parts or f"{stem}.qweight" not in tensors:
                yield name, t

    def _weight(self, name: str, own: Mapping[str, Tensor], dtype: DType) -> Tensor:
        """(out, in) of one layer."""
        for part in ("qzeros", "scales"):
            if part not in own:
                raise FormatError(f"the checkpoint has {name}.qweight, but no {name}.{part}")
        words, zeros, scales = (own[p].numpy() for p in ("qweight", "qzeros", "scales"))
        each = 32 // self.bits
        rows, columns = words.shape if words.ndim == 2 else (0, 0)
        inside, outside = (rows, columns * each) if self.awq else (rows * each, columns)
        size = inside if self.group == -1 else self.group
        groups = -(-inside // max(size, 1))
        shapes = {"qzeros": (groups, outside // each), "scales": (groups, outside)}
        for part, shape in shapes.items():
            if own[part].shape != shape or outside % each or words.ndim != 2:
                raise FormatError(
                    f"{name}.qweight of shape {words.shape} with groups of {self.group} needs "
                    f"{part} of shape {shape}, not {own[part].shape}"
                )
        if words.dtype != np.int32 or zeros.dtype != np.int32 or own["scales"].dtype.kind != "f":
            raise FormatError(f"{name}: qweight and qzeros must be int32, scales floating-point")
        of = np.arange(inside) // max(size, 1)
        if "g_idx" in own and not self.awq:
            of = own["g_idx"].numpy()
            known = of.shape == (inside,) and of.dtype.kind == "i"
            if not known or not ((of >= 0) & (of < groups)).all():
                raise FormatError(f"{name}.g_idx must be {inside} numbers below {groups}")
        scales = own["scales"].float().numpy()
        step = -(-max(_PIECE // max(inside, 1), each) // each) * each
        found = []
        for at in range(0, outside, step):
            end = min(at + step, outside)
            cut = slice(at // each, end // each)
            zero = (self._columns(zeros[:, cut]) + self.less) & (1 << self.bits) - 1
            q = self._columns(words[:, cut]) if self.awq else self._rows(words[:, at:end])
            # (in, some of out)
            values = (q - zero[of]).astype(np.float32) * scales[of, at:end]
            found.append(tensor(np.ascontiguousarray(values.T)).to(dtype=dtype))
        return cat(found) if found else tensor(np.zeros((outside, inside), "f4")).to(dtype=dtype)

    def _shifted(self, words: Array) -> Array:
        """(..., numbers of a word), the lowest bits first."""
        shifts = np.arange(0, 32, self.bits, dtype=np.int32)
        shifted: Array = words[..., None] >> shifts & np.int32((1 << self.bits) - 1)
        return shifted

    def _columns(self, words: Array) -> Array:
        found = self._shifted(words)
        if self.awq:
            found = found[..., np.argsort(_AWQ)]
        return found.reshape(len(words), -1)

    def _rows(self, words: Array) -> Array:
        return self._shifted(words).transpose(0, 2, 1).reshape(-1, words.shape[1])

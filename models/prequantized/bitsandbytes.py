"""bitsandbytes: LLM.int8 (Dettmers et al., 2022), and nf4 and fp4 of QLoRA (Dettmers et al., 2023).

A weight of four bits is a flat row of bytes, the first number in the high half, with the largest
magnitude of each block of numbers (`absmax`), the sixteen values (`quant_map`), and a JSON object
as bytes (`quant_state`). With double quantization `absmax` is bytes too: numbers of a table, times
a magnitude for each block of them, plus an offset. A weight of eight bits has the largest magnitude
of each row, `SCB`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.prequantized.floats import scaled
from rushlight.models.prequantized.rows import made

Array = npt.NDArray[Any]
_STATE = re.compile(r"(.+)\.quant_state\.bitsandbytes__(\w+)")
_KINDS = ("nf4", "fp4")
_PARTS = ("absmax", "quant_map", "nested_absmax", "nested_quant_map")
_LARGEST_BLOCK = 1 << 20


def bitsandbytes(
    tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a checkpoint, its weights of four and eight bits as plain ones."""
    states = {}
    for name in tensors:
        if match := _STATE.fullmatch(name):
            states[match[1]] = name, match[2]
    used = {f"{stem}.{kind}" for stem in states for kind in _PARTS}
    used |= {name for name, _ in states.values()}
    for name, t in tensors.items():
        if name in used:
            continue
        stem, _, suffix = name.rpartition(".")
        if suffix in ("SCB", "weight_format") and f"{stem}.weight" in tensors:
            if suffix == "weight_format" and (t.numel() != 1 or int(t.reshape(1)[0].item()) != 0):
                raise FormatError(f"{name} is not 0; only rows in order are supported")
            continue
        if name in states:
            parts = {p: tensors[f"{name}.{p}"] for p in _PARTS if f"{name}.{p}" in tensors}
            yield name, _four_bits(name, t, tensors[states[name][0]], states[name][1], parts, dtype)
        elif suffix == "weight" and f"{stem}.SCB" in tensors:
            if t.dtype.name != "int8" or t.ndim != 2:
                raise FormatError(f"{name} is {t.dtype.name} {t.shape}; with SCB it is int8, 2-d")
            magnitudes = tensors[f"{stem}.SCB"].float().numpy().reshape(-1)
            yield name, scaled(name, t, magnitudes * np.float32(1 / 127), None, dtype)
        else:
            yield name, t


def _four_bits(
    name: str, t: Tensor, state: Tensor, kind: str, parts: Mapping[str, Tensor], dtype: DType
) -> Tensor:
    told = parse_json(state.raw_bytes(), f"{name}.quant_state", depth=3)
    told = told if isinstance(told, dict) else {}
    shape: Any = told.get("shape")
    size: Any = told.get("blocksize")
    if kind not in _KINDS or told.get("quant_type", kind) != kind:
        raise FormatError(
            f"{name}: quant_type {brief(told.get('quant_type', kind))} is not supported; "
            f"supported: {', '.join(_KINDS)}"
        )
    known = isinstance(shape, list) and shape and all(type(n) is int and n > 0 for n in shape)
    if not known or not _is_size(size):
        raise FormatError(
            f"{name}.quant_state: shape {brief(shape)} and blocksize {brief(size)} must be "
            "positive numbers"
        )
    count = 1
    for n in shape:
        count *= n
    data = np.frombuffer(t.raw_bytes(), np.uint8)
    if data.size != -(-count // 2):
        raise FormatError(f"{name} has {data.size} bytes; {shape} of four bits takes half as many")
    values = _table(name, "quant_map", parts, 16)
    magnitudes = _magnitudes(name, parts, told)
    if magnitudes.shape != (-(-count // size),):
        raise FormatError(
            f"{name}.absmax is {magnitudes.shape}; {count} numbers in blocks of {size} need "
            f"{-(-count // size)}"
        )
    # Rows of the flat list: of the weight, if they begin at bytes, else all at once.
    width = count // shape[0] if (count // shape[0]) % 2 == 0 else count

    def rows(at: int, end: int) -> Array:
        some = data[at * width // 2 : (end * width + 1) // 2]
        codes = np.stack((some >> 4, some & 15), -1).reshape(-1)[: (end - at) * width]
        block = np.arange(at * width, end * width) // size
        weights: Array = (values[codes] * magnitudes[block]).reshape(end - at, width)
        return weights

    return made((count // width, width), dtype, rows).reshape(shape)


def _magnitudes(name: str, parts: Mapping[str, Tensor], told: Mapping[str, Any]) -> Array:
    """The largest magnitude of each block, float32."""
    if "absmax" not in parts:
        raise FormatError(f"the checkpoint has {name}, but no {name}.absmax")
    absmax = parts["absmax"]
    if "nested_absmax" not in parts:
        if absmax.dtype.kind != "f":
            raise FormatError(
                f"{name}.absmax is {absmax.dtype.name}, and there is no nested_absmax"
            )
        return absmax.float().numpy().reshape(-1)
    offset: Any = told.get("nested_offset")
    size: Any = told.get("nested_blocksize")
    number = isinstance(offset, int | float) and not isinstance(offset, bool)
    if not number or not _is_size(size) or absmax.dtype.name != "uint8":
        raise FormatError(
            f"{name}.quant_state: nested_offset {brief(offset)} and nested_blocksize "
            f"{brief(size)} must be numbers, absmax bytes"
        )
    codes = absmax.numpy().reshape(-1)
    outer = parts["nested_absmax"].float().numpy().reshape(-1)
    if outer.size != -(-codes.size // size):
        raise FormatError(
            f"{name}.nested_absmax has {outer.size} numbers; {codes.size} bytes in blocks of "
            f"{size} need {-(-codes.size // size)}"
        )
    values = _table(name, "nested_quant_map", parts, 256)
    nested: Array = values[codes] * outer[np.arange(codes.size) // size] + np.float32(offset)
    return nested


def _table(name: str, part: str, parts: Mapping[str, Tensor], count: int) -> Array:
    if part not in parts or parts[part].numel() != count or parts[part].dtype.kind != "f":
        raise FormatError(f"the checkpoint has no {name}.{part} of {count} numbers")
    return parts[part].float().numpy().reshape(-1)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value <= _LARGEST_BLOCK

"""compressed-tensors, the format of llm-compressor and vLLM (package of version 0.20).

config_groups say for the modules that they target how weights are quantized: integers packed into
words of 32 bits without gaps, integers or float8 as they are, floats of four and six bits (NVFP4,
MXFP4, MXFP6) and MXFP8, each with scales per tensor, row, group or block. Activations are not
quantized here: a layer computes with its weights' values.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.codec import NARROW, widened
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.basis.patterns import compiled
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.prequantized.floats import scaled
from rushlight.models.prequantized.rows import (
    bit_stream,
    integer_blocks,
    made,
    mxfp4_blocks,
    wrong,
)

Array = npt.NDArray[Any]
log = logging.getLogger("rushlight")
FORMATS = (
    "pack-quantized",
    "int-quantized",
    "float-quantized",
    "naive-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp6-pack-quantized",
    "mxfp8-quantized",
    "dense",
    "mixed-precision",
)
_STRATEGIES = ("tensor", "channel", "group", "block", "tensor_group")
_PARTS = ("packed", "scale", "zero_point", "shape", "g_idx", "global_scale")
# Of activations, keys and values, which are not quantized here.
_UNUSED = tuple(
    f".{of}_{kind}"
    for of in ("input", "output", "q", "k", "v")
    for kind in ("scale", "zero_point", "global_scale")
)
_MOST_GROUPS = 256


def compressed(
    tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a checkpoint, its quantized weights as plain ones or as blocks."""
    groups = _Groups(given)
    parts = tuple(f".weight_{kind}" for kind in _PARTS)
    for name, t in tensors.items():
        stem, _, suffix = name.rpartition(".")
        if name.endswith(_UNUSED):
            log.info("skipped %s: activations are not quantized here", name)
        elif suffix == "weight_packed" or (
            suffix == "weight" and f"{stem}.weight_scale" in tensors
        ):
            stored = {
                p: tensors[f"{stem}.weight_{p}"] for p in _PARTS if f"{stem}.weight_{p}" in tensors
            }
            yield f"{stem}.weight", _weight(stem, t, stored, groups.of(stem), dtype)
        elif not name.endswith(parts):
            yield name, t


class _Groups:
    """How the weights of a module are quantized, by its name."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        form = given.get("format", "dense")
        if form not in FORMATS:
            raise LoadError(
                f"config.json: quantization_config.format {brief(form)} is not supported; "
                f"supported: {', '.join(FORMATS)}"
            )
        sparse = given.get("sparsity_config") or {}
        sparse = sparse.get("format", "dense") if isinstance(sparse, dict) else sparse
        if sparse != "dense":
            raise LoadError(
                f"config.json: quantization_config.sparsity_config.format {brief(sparse)} is not "
                "supported; supported: dense"
            )
        turned = given.get("transform_config") or {}
        if not isinstance(turned, dict) or turned.get("config_groups"):
            raise LoadError(
                "config.json: quantization_config.transform_config has transforms, which are not "
                "supported"
            )
        groups = given.get("config_groups") or {}
        if not isinstance(groups, dict) or len(groups) > _MOST_GROUPS:
            raise wrong("config_groups", groups, f"an object of at most {_MOST_GROUPS} groups")
        # (targets, weights)
        self.groups = [_group(f"config_groups.{name}", group) for name, group in groups.items()]

    def of(self, path: str) -> Mapping[str, Any]:
        """The `weights` of the group of a module: by its name, a pattern, or its class."""
        if len(self.groups) == 1:
            return self.groups[0][1]
        names = [weights for targets, weights in self.groups if path in targets]
        if names:
            return names[0]
        label = "config.json: quantization_config.config_groups: targets"
        for targets, weights in self.groups:
            for target in targets:
                if target.startswith("re:") and compiled(target[3:], label).match(path):
                    return weights
        classes = [weights for targets, weights in self.groups if "Linear" in targets]
        if not classes:
            raise FormatError(f"{label} name no module {path!r:.100}, which is quantized")
        return classes[0]


def _group(label: str, group: Any) -> tuple[list[str], Mapping[str, Any]]:
    targets = group.get("targets") if isinstance(group, dict) else None
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise wrong(label, group, "an object with a list `targets`")
    weights = group.get("weights") or {}
    if not isinstance(weights, dict):
        raise wrong(f"{label}.weights", weights, "an object")
    bits, kind = weights.get("num_bits", 8), weights.get("type", "int")
    if type(bits) is not int or not 1 <= bits <= 8 or kind not in ("int", "float"):
        raise wrong(f"{label}.weights", weights, "of 1 to 8 bits, of type int or float")
    if group.get("format") not in (None, *FORMATS):
        raise wrong(f"{label}.format", group["format"], ", ".join(FORMATS))
    strategy = weights.get("strategy")
    if strategy not in (None, *_STRATEGIES):
        raise wrong(f"{label}.weights.strategy", strategy, ", ".join(_STRATEGIES))
    return targets, weights


def _weight(
    name: str, t: Tensor, stored: Mapping[str, Tensor], weights: Mapping[str, Any], dtype: DType
) -> Tensor:
    """The weight (..., out, in) of one module."""
    if "scale" not in stored:
        raise FormatError(f"the checkpoint has {name}.weight_packed, but no {name}.weight_scale")
    bits, kind = weights.get("num_bits", 8), weights.get("type", "int")
    if t.ndim > 2:
        each = [
            _weight(f"{name}.experts.", t[i], {p: s[i] for p, s in stored.items()}, weights, dtype)
            for i in range(t.shape[0])
        ]
        from rushlight.core.functional.joining import stack

        return stack(each)
    if "packed" not in stored:
        return _unpacked(name, t, stored, weights, dtype)
    if t.ndim != 2:
        raise FormatError(f"{name}.weight_packed is {t.shape}; it must be 2-d")
    if kind == "float":
        return _small_floats(name, t, stored, bits, dtype)
    return _packed_integers(name, t, stored, bits, dtype)


def _scales(name: str, stored: Mapping[str, Tensor], outside: int) -> Array:
    """The scales (out, groups) of rows, float32."""
    scale = stored["scale"].float().numpy()
    if scale.size == 1:
        return np.full((outside, 1), scale.reshape(()), np.float32)
    by_row: Array = scale.reshape(outside, -1) if scale.ndim == 1 else scale
    if by_row.ndim != 2 or len(by_row) != outside:
        raise FormatError(f"{name}.weight_scale is {scale.shape}; the weight has {outside} rows")
    return by_row


def _packed_integers(
    name: str, t: Tensor, stored: Mapping[str, Tensor], bits: int, dtype: DType
) -> Tensor:
    shape = stored["shape"].reshape(-1).tolist() if "shape" in stored else []
    outside, words = t.shape
    known = len(shape) == 2 and shape[0] == outside and t.dtype.name == "int32"
    if not known or not 0 < shape[1] or words != -(-int(shape[1]) * bits // 32):
        raise FormatError(
            f"{name}.weight_packed is {t.dtype.name} {t.shape}, which does not fit weight_shape "
            f"{brief(shape)} and {bits} bits"
        )
    inside, scales = int(shape[1]), _scales(name, stored, outside)
    groups, raw, middle = scales.shape[1], t.numpy(), 1 << bits - 1
    if not 0 < groups <= inside:
        raise FormatError(f"{name}.weight_scale is {scales.shape}; the weight is {shape}")
    of = np.arange(inside) // -(-inside // groups)
    order = stored.get("g_idx")
    if order is not None and (order.numpy() >= 0).all():
        of = order.numpy()
        if of.shape != (inside,) or of.max(initial=0) >= groups:
            raise FormatError(f"{name}.weight_g_idx must be {inside} numbers below {groups}")
    zero = None
    if "zero_point" in stored:
        packed = stored["zero_point"]
        if packed.dtype.name == "int32" and packed.shape[:1] == (-(-outside * bits // 32),):
            lines = bit_stream(packed.numpy().reshape(len(packed.numpy()), -1).T, bits, outside)
            zero = lines.T.astype(np.int16) - middle
        else:
            zero = packed.to(dtype="int32").numpy().reshape(outside, -1)
        if zero.shape != scales.shape:
            raise FormatError(f"{name}.weight_zero_point does not fit scales {scales.shape}")
        zero = zero if zero.any() else None

    def numbers(at: int, end: int) -> Array:
        return bit_stream(raw[at:end], bits, inside).astype(np.int16) - middle

    def rows(at: int, end: int) -> Array:
        q = numbers(at, end)
        q = q if zero is None else q - zero[at:end][:, of]
        weights: Array = q.astype(np.float32) * scales[at:end][:, of]
        return weights

    if zero is None and (order is None or np.array_equal(of, np.sort(of))):
        blocks = integer_blocks(name, bits, scales, inside, numbers)
        if blocks is not None:
            return blocks
    return made((outside, inside), dtype, rows)


def _unpacked(
    name: str, t: Tensor, stored: Mapping[str, Tensor], weights: Mapping[str, Any], dtype: DType
) -> Tensor:
    """A weight of int8 or float8, times its scales."""
    if t.dtype.name not in ("int8", "float8_e4m3fn", "float8_e5m2"):
        raise FormatError(f"{name}.weight is {t.dtype.name} with scales; int8 and float8 have them")
    scale = stored["scale"]
    values = _powers(scale) if scale.dtype.name == "uint8" else scale.float().numpy()
    zero = stored["zero_point"].float().numpy() if "zero_point" in stored else None
    zero = zero if zero is not None and zero.any() else None
    outside, inside = t.shape if t.ndim == 2 else (0, 0)
    if t.dtype.name == "int8" and zero is None and values.ndim == 2 and values.shape[1]:
        if len(values) == outside:
            raw = t.numpy()
            blocks = integer_blocks(name, 8, values, inside, lambda at, end: raw[at:end])
            if blocks is not None:
                return blocks
    block = weights.get("block_structure")
    if isinstance(block, str):
        block = [int(n) if n.isdecimal() and len(n) < 9 else 0 for n in block.split("x")]
    if block is not None and not (
        isinstance(block, list) and len(block) == 2 and all(type(n) is int and n > 0 for n in block)
    ):
        raise wrong("config_groups.weights.block_structure", block, "two positive numbers")
    if block is None and values.ndim == 2 and len(values) == outside and values.shape[1] > 1:
        block = [1, -(-inside // values.shape[1])]
    return scaled(f"{name}.weight", t, values, block, dtype, zero)


def _powers(exponents: Tensor) -> Array:
    """2 ** (n - 127) of bytes."""
    raw = exponents.numpy()
    return widened(NARROW["F8_E8M0"], raw.reshape(-1)).reshape(raw.shape)


def _small_floats(
    name: str, t: Tensor, stored: Mapping[str, Tensor], bits: int, dtype: DType
) -> Tensor:
    """A weight of floats of four or six bits."""
    if t.dtype.name != "uint8" or bits not in (4, 6) or t.shape[1] * 8 % bits:
        raise FormatError(f"{name}.weight_packed is {t.dtype.name} {t.shape} of {bits} bits")
    (outside, width), raw = t.shape, t.numpy()
    inside, kind = width * 8 // bits, NARROW["F4" if bits == 4 else "F6_E2M3"]
    scale = stored["scale"]
    exponents = scale.dtype.name == "uint8"
    scales = _powers(scale) if exponents else scale.float().numpy()
    if scales.ndim != 2 or len(scales) != outside or inside % max(scales.shape[1], 1):
        raise FormatError(f"{name}.weight_scale is {scales.shape}; the weight {outside, inside}")
    each = inside // max(scales.shape[1], 1)
    if exponents and bits == 4 and each == 32 and "global_scale" not in stored:
        blocks = mxfp4_blocks(name, raw, scale.numpy())
        if blocks is not None:
            return blocks
    if "global_scale" in stored:
        global_scale = stored["global_scale"].float().numpy()
        if global_scale.size != 1:
            raise FormatError(f"{name}.weight_global_scale is {global_scale.shape}, not one number")
        scales = scales / global_scale.reshape(())
    across = np.arange(inside) // each

    def rows(at: int, end: int) -> Array:
        values = widened(kind, raw[at:end].reshape(-1)).reshape(end - at, inside)
        weights: Array = values * scales[at:end][:, across]
        return weights

    return made((outside, inside), dtype, rows)

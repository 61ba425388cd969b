"""The methods of quantization_config, each with the reader of its tensors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.find_config import named_dtype
from rushlight.models.prequantized.bitsandbytes import bitsandbytes
from rushlight.models.prequantized.compressed import compressed
from rushlight.models.prequantized.floats import fp8
from rushlight.models.prequantized.hqq import hqq
from rushlight.models.prequantized.packed import awq, gptq, rounded
from rushlight.models.prequantized.rows import wrong

log = logging.getLogger("rushlight")

Reader = Callable[[Mapping[str, Tensor], Mapping[str, Any], DType], Iterator[tuple[str, Tensor]]]
# auto-round's: integers as GPTQ, AWQ and itself pack them, and small floats.
_ROUNDED = (
    "auto_round:auto_gptq", "auto_round:gptq", "auto_round:auto_awq", "auto_round:awq",
    "auto_round", "auto_round:exllamav2", "auto_round:gptqmodel", "auto_round:fp8",
    "auto_round:fp8_static", "auto_round:llm_compressor", "auto_gptq", "auto_awq", "auto",
)  # fmt: skip


def _packed(make: Callable[..., Any]) -> Reader:
    def read(
        tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
    ) -> Iterator[tuple[str, Tensor]]:
        pairs: Iterator[tuple[str, Tensor]] = make(given)(tensors, dtype)
        return pairs

    return read


def _auto_round(
    tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
) -> Iterator[tuple[str, Tensor]]:
    form, kind = given.get("packing_format") or "auto", str(given.get("data_type") or "int")
    if form not in _ROUNDED and not str(form).startswith("auto_round:llm_compressor"):
        raise wrong("packing_format", form, ", ".join(_ROUNDED))
    if kind == "int" and "fp8" not in form:
        form = "auto_round:auto_gptq" if form == "auto" else form
        return _packed(partial(rounded, form=form))(tensors, given, dtype)
    bits = given.get("bits", 4)
    if not kind.startswith(("mx_fp", "nv_fp", "fp")) or bits not in (4, 8):
        raise wrong("data_type", kind, "int, mx_fp, nv_fp or fp8, of 4 or 8 bits")
    if kind.startswith("fp"):
        return fp8(tensors, given, dtype)
    weights = {"num_bits": bits, "type": "float"}
    group = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return compressed(tensors, {"config_groups": group}, dtype)


METHODS: dict[str, Reader] = {
    "auto-round": _auto_round,
    "awq": _packed(awq),
    "bitsandbytes": bitsandbytes,
    "compressed-tensors": compressed,
    "fbgemm_fp8": fp8,
    "fp8": fp8,
    "gptq": _packed(gptq),
    "hqq": hqq,
}
_NAMES = {"intel/auto-round": "auto-round", "auto_round": "auto-round"}


def dequantized(
    config: dict[str, Any],
    tensors: Mapping[str, Tensor],
    dtype: DType | None = None,
    turned: bool = False,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(config.json without its `quantization_config`, the tensors of weights as a model has them).

    dtype: of plain weights; by default the one that config.json names, or else float32. turned:
    whether the model has its matrices as (in, out); quantized ones are (out, in). Raises LoadError
    for a method that is not supported, FormatError for a key or a shape that does not fit.
    """
    settings, rest = config["quantization_config"], dict(config)
    del rest["quantization_config"]
    if not isinstance(settings, dict):
        raise FormatError(f"config.json: quantization_config is {brief(settings)}, not an object")
    method = settings.get("quant_method")
    if method is None and (settings.get("load_in_4bit") or settings.get("load_in_8bit")):
        method = "bitsandbytes"
    method = _NAMES.get(method, method) if isinstance(method, str) else method
    if not isinstance(method, str) or method not in METHODS:
        raise LoadError(
            f"config.json: quantization_config.quant_method {brief(method)} is not supported; "
            f"supported: {', '.join(METHODS)}",
            hint="use the model's unquantized weights or a GGUF file",
        )
    try:
        by_name = dict(METHODS[method](tensors, settings, dtype or named_dtype(config)))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, FormatError | LoadError):
            raise
        raise FormatError(
            f"the checkpoint's tensors do not fit its quantization_config of {method}: {error}",
            hint="a shape or a size in it is wrong",
        ) from error
    if turned:
        for name, t in by_name.items():
            if t.ndim == 2 and name not in tensors:
                plain = t.dequantize() if t.dtype.kind == "q" else t
                by_name[name] = plain.t().contiguous()
            elif t.ndim == 2 and tensors[name] is not t:
                by_name[name] = t.t().contiguous()
    wide = [
        n
        for n, t in by_name.items()
        if n.endswith("weight") and t.ndim > 1 and t.dtype.kind != "q" and tensors.get(n) is not t
    ]
    if wide:
        told = sum(by_name[n].nbytes for n in wide) / 1e6
        log.warning(
            "%s: weights are dequantized (%d), as %s, to %.1f MB of %s",
            method,
            len(wide),
            wide[0],
            told,
            by_name[wide[0]].dtype.name,
        )
    return rest, by_name

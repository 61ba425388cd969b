"""Make tests/models/data/quantized.safetensors: layers that other libraries quantize, and values.

    python tests/parity/make_quantized_goldens.py

Needs torch, bitsandbytes (0.50), compressed-tensors (0.20), hqq (0.2.8) and auto-round (0.16). Each
case is a quantization_config, the tensors of one layer as the library stores them, and the weight
that it makes of them.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import bitsandbytes as bnb
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file

OUT = Path(__file__).parents[1] / "models" / "data" / "quantized.safetensors"
Case = tuple[dict[str, Any], dict[str, torch.Tensor], torch.Tensor]


def weight(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(rows, columns) * 0.2


def four_bits(kind: str, nested: bool, size: int, shape: tuple[int, int], store: Any) -> Case:
    w, state = bnb.functional.quantize_4bit(
        weight(*shape),
        blocksize=size,
        quant_type=kind,
        compress_statistics=nested,
        quant_storage=store,
    )
    found = {"weight": w, **{f"weight.{k}": v for k, v in state.as_dict(packed=True).items()}}
    given = {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "bnb_4bit_quant_type": kind,
        "bnb_4bit_use_double_quant": nested,
    }
    return given, found, bnb.functional.dequantize_4bit(w, state).float()


def eight_bits() -> Case:
    q, scale, _ = bnb.functional.int8_vectorwise_quant(weight(12, 20).half())
    found = {"weight": q, "SCB": scale, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    given = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    return given, found, bnb.functional.int8_vectorwise_dequant(q, scale).float()


def compressed(form: str, shape: tuple[int, int], scales: Any = torch.float32, **args: Any) -> Case:
    """A layer in a format of compressed-tensors, with scales of the largest magnitudes."""
    w, own = weight(*shape), QuantizationArgs(**args)
    activations = QuantizationArgs(num_bits=8, type=own.type, strategy="tensor")
    both = form in ("int-quantized", "float-quantized")
    scheme = QuantizationScheme(
        targets=["Linear"], weights=own, input_activations=activations if both else None
    )
    whole = None
    if own.strategy == "block":
        tall, wide = own.block_structure
        rows = torch.stack(
            [
                torch.stack([piece.abs().amax() for piece in some.split(wide, 1)])
                for some in w.split(tall, 0)
            ]
        )
        scale, zero = calculate_qparams(-rows, rows, own)
    else:
        each = {"group": own.group_size, "tensor_group": own.group_size, "channel": shape[1]}
        parts = w.reshape(shape[0], -1, each.get(own.strategy, shape[1]))
        low, high = parts.amin(-1), parts.amax(-1)
        if own.strategy == "tensor":
            low, high = low.amin().reshape(1), high.amax().reshape(1)
        if own.strategy == "tensor_group":
            whole = (448.0 * 6.0 / w.abs().amax()).reshape(1)
        scale, zero = calculate_qparams(low, high, own, global_scale=whole)
    state = {"weight": w.to(scales), "weight_scale": scale.to(scales), "weight_zero_point": zero}
    if whole is not None:
        state["weight_global_scale"] = whole
    if form.startswith(("nvfp4", "mxfp")):
        state["weight_scale"] = scale
    made = BaseCompressor.get_value_from_registry(form)
    stored = made.compress(state, scheme)
    plain = made.decompress(dict(stored), scheme)["weight"].float()
    given = {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": json.loads(scheme.model_dump_json())},
        "ignore": ["lm_head"],
    }
    return given, {k: v for k, v in stored.items() if v is not None}, plain


def half_quadratic(bits: int, size: int | None, axis: int, shape: tuple[int, int]) -> Case:
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer

    config = BaseQuantizeConfig(nbits=bits, group_size=size, axis=axis)
    layer = torch.nn.Linear(shape[1], shape[0], bias=True)
    layer.weight.data = weight(*shape)
    made = HQQLinear(layer, config, compute_dtype=torch.float32, device="cpu")
    found = {k: v.detach().clone() for k, v in made.state_dict().items() if v is not None}
    plain = Quantizer.dequantize(made.W_q, made.meta)
    given = {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": bits}}}
    return given, found, plain.float()


def _only_the_layers_of_auto_round() -> None:
    """Make its layers importable without what it quantizes with."""
    if "auto_round" in sys.modules:
        return
    spec = importlib.util.find_spec("auto_round")
    assert spec is not None and spec.submodule_search_locations is not None
    (root,) = spec.submodule_search_locations
    package, utils = types.ModuleType("auto_round"), types.ModuleType("auto_round.utils")
    package.__path__, utils.__path__ = [root], [f"{root}/utils"]
    utils.get_packing_device = lambda device: "cpu"  # type: ignore[attr-defined]
    sys.modules |= {"auto_round": package, "auto_round.utils": utils}


def rounded(form: str, bits: int, size: int, symmetric: bool) -> Case:
    _only_the_layers_of_auto_round()
    from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp

    rows, columns = 32, 96
    module = qlinear_torch_zp if form.endswith("auto_gptq") else qlinear_torch
    made = module.QuantLinear(bits, size, columns, rows, False)
    linear = torch.nn.Linear(columns, rows, bias=False)
    linear.weight.data = weight(rows, columns)
    parts = linear.weight.data.reshape(rows, -1, size)
    most = 2**bits - 1
    if symmetric:
        scale = parts.abs().amax(-1) / (most / 2)
        zeros: Any = 2 ** (bits - 1)
    else:
        scale = (parts.amax(-1) - parts.amin(-1)) / most
        zeros = (-parts.amin(-1) / scale).round().clamp(1, most)
    scale = scale.half().float()
    made.device = "cpu"
    made.pack(linear, scale, zeros, device="cpu")
    plain = made(torch.eye(columns).half()).float().t() if bits != 3 else None
    q = (
        (
            linear.weight.data / scale.repeat_interleave(size, 1)
            + (zeros if symmetric else zeros.repeat_interleave(size, 1))
        )
        .round()
        .clamp(0, most)
    )
    exact = q - (zeros if symmetric else zeros.repeat_interleave(size, 1))
    exact = exact * scale.repeat_interleave(size, 1)
    assert plain is None or torch.allclose(plain, exact, atol=2e-3, rtol=2e-3), form
    given = {
        "quant_method": "auto-round",
        "bits": bits,
        "group_size": size,
        "sym": symmetric,
        "data_type": "int",
        "packing_format": form,
    }
    stored = {"qweight": made.qweight, "qzeros": made.qzeros, "scales": made.scales}
    return given, stored, exact


def cases() -> dict[str, Case]:
    found = {
        f"bnb {kind} {nested} {size} {shape}": four_bits(kind, nested, size, shape, store)
        for kind, nested, size, shape, store in (
            ("nf4", False, 64, (8, 64), torch.uint8),
            ("nf4", True, 64, (24, 64), torch.uint8),
            ("fp4", True, 128, (8, 128), torch.uint8),
            ("nf4", False, 64, (6, 22), torch.uint8),
            ("fp4", False, 64, (8, 64), torch.bfloat16),
            ("nf4", False, 64, (5, 13), torch.uint8),
        )
    }
    found["bnb int8"] = eight_bits()
    w4: dict[str, Any] = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
    w8: dict[str, Any] = {"num_bits": 8, "type": "int", "strategy": "channel"}
    f8: dict[str, Any] = {"num_bits": 8, "type": "float"}
    for name, form, shape, args in (
        ("w4a16", "pack-quantized", (24, 64), w4),
        ("w4a16 half", "pack-quantized", (24, 64), w4 | {"scales": torch.float16}),
        ("w4a16 asym", "pack-quantized", (20, 64), w4 | {"symmetric": False}),
        ("w3", "pack-quantized", (10, 50), w4 | {"num_bits": 3, "group_size": 10}),
        ("w8a16 asym", "pack-quantized", (12, 37), w8 | {"symmetric": False}),
        ("w8a16", "pack-quantized", (12, 64), w8 | {"scales": torch.bfloat16}),
        ("w8a8", "int-quantized", (12, 32), w8),
        ("w8a8 asym", "int-quantized", (12, 37), w8 | {"symmetric": False}),
        ("w8a8 tensor", "int-quantized", (6, 32), w8 | {"strategy": "tensor"}),
        ("naive int8", "naive-quantized", (6, 32), w8 | {"strategy": "group", "group_size": 16}),
        ("fp8 channel", "float-quantized", (6, 21), f8 | {"strategy": "channel"}),
        ("fp8 tensor", "float-quantized", (6, 21), f8 | {"strategy": "tensor"}),
        ("fp8 block", "float-quantized", (10, 20),
         f8 | {"strategy": "block", "block_structure": [4, 8]}),
        ("naive fp8", "naive-quantized", (6, 32), f8 | {"strategy": "channel"}),
        ("nvfp4", "nvfp4-pack-quantized", (6, 64), {
            "num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16,
            "scale_dtype": "torch.float8_e4m3fn"}),
        ("mxfp4", "mxfp4-pack-quantized", (6, 64), {
            "num_bits": 4, "type": "float", "strategy": "group", "group_size": 32,
            "scale_dtype": "torch.uint8"}),
        ("mxfp6", "mxfp6-pack-quantized", (6, 64), {
            "num_bits": 6, "type": "float", "strategy": "group", "group_size": 32,
            "scale_dtype": "torch.uint8"}),
        ("mxfp8", "mxfp8-quantized", (6, 64), f8 | {
            "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}),
    ):  # fmt: skip
        found[f"compressed {name}"] = compressed(form, shape, **args)
    for bits, size, axis, shape in (
        (4, 16, 1, (12, 32)),
        (4, 16, 0, (12, 32)),
        (8, 32, 1, (6, 32)),
        (3, 16, 1, (10, 48)),
        (3, 16, 0, (12, 32)),
        (2, 16, 1, (8, 32)),
        (1, 16, 1, (8, 32)),
        (4, None, 1, (8, 20)),
    ):
        found[f"hqq {bits} {size} {axis}"] = half_quadratic(bits, size, axis, shape)
    for form, bits, size, symmetric in (
        ("auto_round:auto_gptq", 4, 32, True),
        ("auto_round:auto_gptq", 4, 48, False),
        ("auto_round", 4, 32, True),
        ("auto_round", 2, 32, False),
        ("auto_round", 8, 96, False),
        ("auto_round", 3, 32, False),
        ("auto_round", 5, 32, False),
    ):
        found[f"{form} {bits} {size} {symmetric}"] = rounded(form, bits, size, symmetric)
    return found


def main() -> None:
    tensors: dict[str, torch.Tensor] = {}
    configs: dict[str, str] = {}
    for name, (given, stored, plain) in cases().items():
        configs[name] = json.dumps(given, separators=(",", ":"))
        tensors |= {f"{name}|{part}": t.contiguous() for part, t in stored.items()}
        tensors[f"{name}||"] = plain.contiguous()
        print(name, {k: (str(v.dtype), tuple(v.shape)) for k, v in stored.items()})
    save_file(tensors, OUT, configs)
    print(OUT.stat().st_size)


if __name__ == "__main__":
    main()

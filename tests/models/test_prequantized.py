"""Quantized checkpoints: weights are those of unpacking by the papers, in float64, or of the
library that stored them.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import read_table, save_safetensors
from rushlight.core.io.weights.source import BytesSource
from rushlight.models.prequantized import dequantized

Array = npt.NDArray[Any]
ORDER = {"gptq": (0, 1, 2, 3, 4, 5, 6, 7), "awq": (0, 2, 4, 6, 1, 3, 5, 7)}


def words_of(numbers: Array, bits: int, order: tuple[int, ...]) -> Array:
    """Each row's numbers as words of 32 bits; order: the column in each place of a word."""
    each = 32 // bits
    out = []
    for row in numbers.tolist():
        words = []
        for at in range(0, len(row), each):
            places = order if each == 8 else range(each)
            texts = [format(row[at + column], f"0{bits}b") for column in places]
            words.append(int("".join(reversed(texts)), 2))
        out.append(words)
    return np.array(out, np.uint32).view(np.int32)


def packed(
    method: str,
    bits: int,
    inside: int,
    outside: int,
    size: int,
    shuffled: bool = False,
    less: int = 1,
    middle: int | None = None,
) -> tuple[dict[str, Array], Array]:
    """The tensors of a layer, and its weight (out, in) in float64."""
    rng, most = np.random.default_rng(bits + inside), 1 << bits
    groups = -(-inside // size)
    q = rng.integers(0, most, (inside, outside))
    zeros = (
        rng.integers(1, most, (groups, outside))
        if middle is None
        else np.full((groups, outside), middle)
    )
    scales = rng.normal(size=(groups, outside)).astype(np.float16) * np.float16(0.1)
    of = np.array([i // size for i in range(inside)])
    of = rng.permutation(of) if shuffled else of
    weight = np.empty((outside, inside))
    for o in range(outside):
        for i in range(inside):
            weight[o, i] = (int(q[i, o]) - int(zeros[of[i], o])) * float(scales[of[i], o])
    order = ORDER[method]
    along = words_of(q, bits, order) if method == "awq" else words_of(q.T, bits, order).T
    stored = zeros - (less if method == "gptq" else 0)
    found = {
        "qweight": np.ascontiguousarray(along),
        "qzeros": words_of(stored, bits, order),
        "scales": scales,
    }
    return found | ({"g_idx": of.astype(np.int32)} if method == "gptq" else {}), weight


def config_of(**changes: Any) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "vocab_size": 20,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "tie_word_embeddings": True,
        **changes,
    }


@pytest.mark.parametrize(
    ("method", "bits", "size", "rest"),
    [
        ("gptq", 4, 16, {"shuffled": True}),
        ("gptq", 4, 48, {"middle": 8}),
        ("gptq", 8, 32, {}),
        ("gptq", 2, 24, {}),
        ("gptq", 4, 32, {"middle": 8, "inside": 96}),
        ("gptq", 8, 96, {"middle": 128, "inside": 96}),
        ("gptq", 4, 16, {"less": 0}),
        ("awq", 4, 16, {}),
    ],
)
def test_packed_weights(
    method: str, bits: int, size: int, rest: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    inside = rest.pop("inside", 48)
    parts, weight = packed(method, bits, inside, 32, size, **rest)
    given = {"quant_method": method, "bits": bits, "group_size": -1 if size == inside else size}
    given["checkpoint_format"] = "gptq" if rest.get("less", 1) else "gptq_v2"
    tensors = {f"a.{part}": rl.tensor(value) for part, value in parts.items()}
    tensors["a.bias"] = rl.zeros(32)
    plain, found = dequantized({"quantization_config": given}, tensors)
    assert plain == {} and set(found) == {"a.weight", "a.bias"}
    values = found["a.weight"]
    said = f"{method}: weights are dequantized (1), as a.weight, to 0.0 MB of float32"
    assert (said in caplog.text) is (inside != 96)
    if inside == 96:  # symmetric, in groups of 32: blocks hold it as it is
        assert values.dtype is (rl.q4_0 if bits == 4 else rl.q8_0)
        np.testing.assert_allclose(values.dequantize().numpy(), weight, rtol=1e-6, atol=1e-7)
        return
    np.testing.assert_allclose(values.numpy(), weight, rtol=1e-6, atol=1e-7)
    _, half = dequantized({"quantization_config": given}, tensors, rl.bfloat16)
    assert half["a.weight"].dtype is rl.bfloat16


def bits_of_e4m3(value: int) -> float:
    """Sign, four bits of exponent from -7, three of fraction."""
    sign, exponent, fraction = value >> 7, value >> 3 & 15, value & 7
    size = fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
    return -size if sign else size


@pytest.mark.parametrize("block", [[4, 5], None])
def test_fp8_with_scales(block: list[int] | None) -> None:
    rng = np.random.default_rng(3)
    raw = (rng.integers(0, 127, (10, 13)) + 128 * rng.integers(0, 2, (10, 13))).astype(np.uint8)
    wanted = np.array([[bits_of_e4m3(int(v)) for v in row] for row in raw])
    scales = rng.normal(size=(3, 3) if block else (1,)).astype(np.float32)
    for (i, j), value in np.ndenumerate(wanted):
        wanted[i, j] = value * (float(scales[i // 4, j // 5]) if block else float(scales[0]))
    stored = rl.Tensor.from_buffer(raw.reshape(-1), rl.float8_e4m3fn, raw.shape)
    name = "weight_scale_inv" if block else "weight_scale"
    given = {"quant_method": "fp8", "weight_block_size": block, "activation_scheme": "static"}
    tensors = {"a.weight": stored, f"a.{name}": rl.tensor(scales), "a.input_scale": rl.ones(1)}
    _, found = dequantized({"quantization_config": given}, tensors)
    assert set(found) == {"a.weight"}
    np.testing.assert_allclose(found["a.weight"].numpy(), wanted, rtol=1e-6)


def test_a_model_loads_as_its_plain_one(tmp_path: Path) -> None:
    """From a folder, with float8 as such too."""
    config, rng = config_of(), np.random.default_rng(1)
    blank = rl.models.families.family_of("llama", "").build(config, [])
    plain: dict[str, Any] = {}
    quantized: dict[str, Any] = {}
    for name, p in blank.named_parameters():
        if name.endswith("_proj.weight"):
            parts, weight = packed("gptq", 4, p.shape[1], p.shape[0], 16)
            plain[name] = rl.tensor(weight.astype(np.float32))
            quantized |= {f"{name[:-6]}{k}": rl.tensor(v) for k, v in parts.items()}
        else:
            plain[name] = quantized[name] = rl.tensor(rng.normal(size=p.shape).astype(np.float32))
    kept = {"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": False, "sym": False}
    files = {"config.json": json.dumps(config).encode()}
    save_safetensors(quantized, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": kept}))
    ids = rl.tensor([[3, 1, 4, 1, 5]])

    def logits(m: Any) -> Array:
        with rl.no_grad():
            found: Array = m(ids).numpy()
        return found

    wanted = logits(rl.models.assemble(files, plain))
    np.testing.assert_allclose(logits(rl.models.load(tmp_path)), wanted, rtol=1e-5, atol=1e-6)
    small = {n: t.to(dtype=rl.float8_e5m2) for n, t in plain.items()}
    back = {n: t.float() for n, t in small.items()}
    found, wanted = (logits(rl.models.assemble(files, tensors)) for tensors in (small, back))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"quant_method": "aqlm"}, "'aqlm' is not supported; supported: auto-round, awq, bitsand"),
        ({}, "None is not supported"),
        ("gptq", "not an object"),
        ({"quant_method": "gptq", "bits": 5}, "bits is 5; it must be 2 or 3 or 4 or 8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size is 0"),
        ({"quant_method": "compressed-tensors", "format": "marlin-24"}, "'marlin-24' is not supp"),
        (
            {"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-bitmask"}},
            "sparsity_config.format 'sparse-bitmask'",
        ),
        ({"quant_method": "compressed-tensors", "config_groups": [1]}, "config_groups is"),
        ({"quant_method": "auto-round", "packing_format": "itrex"}, "packing_format is 'itrex'"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version is 'gemv'"),
        ({"quant_method": "fp8", "weight_block_size": [0, 1]}, "weight_block_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 8}, "needs qzeros of shape"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 16, "g": 9}, "g_idx must be"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 16, "g": "none"}, "no a.scales"),
        ({"quant_method": "fp8", "weight_block_size": [4, 4]}, "has scales of shape"),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, error: str) -> None:
    parts, _ = packed("gptq", 4, 48, 32, 16)
    if isinstance(given, dict) and "g" in given:
        parts["g_idx"] = np.full(48, given["g"] if given["g"] != "none" else 0, np.int32)
        parts = {k: v for k, v in parts.items() if k != "scales" or given["g"] != "none"}
    tensors = {f"a.{part}": rl.tensor(value) for part, value in parts.items()}
    tensors["b.weight"] = rl.zeros((8, 8)).to(dtype=rl.float8_e4m3fn)
    tensors["b.weight_scale_inv"] = rl.ones((3, 2))
    with pytest.raises((rl.LoadError, rl.FormatError), match=error):
        dequantized({"quantization_config": given}, tensors)


# --- what other libraries store -----------------------------------------------------------------

STORED = Path(__file__).parent / "data" / "quantized.safetensors"
CONFIGS = {
    name: json.loads(text)
    for name, text in read_table(BytesSource(STORED.read_bytes(), "m")).metadata.items()
}
BLOCKS = {
    "compressed w4a16 half": "q4_0",
    "compressed w8a16": "q8_0",
    "compressed mxfp4": "mxfp4",
    "auto_round:auto_gptq 4 32 True": "q4_0",
    "auto_round 4 32 True": "q4_0",
}


def stored_case(name: str) -> tuple[dict[str, rl.Tensor], Array]:
    found = {n.partition("|")[2]: t for n, t in rl.load(STORED).items() if n.startswith(f"{name}|")}
    return {f"m.{n}": t for n, t in found.items() if n != "|"}, found["|"].numpy()


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_are_those_of_the_library(name: str) -> None:
    """bitsandbytes, compressed-tensors, hqq and auto-round, by their own dequantization."""
    tensors, weight = stored_case(name)
    tensors["m.bias"] = rl.zeros(len(weight))
    _, found = dequantized({"quantization_config": CONFIGS[name]}, tensors)
    assert set(found) == {"m.weight", "m.bias"}
    values = found["m.weight"]
    assert values.shape == weight.shape
    assert values.dtype.name == BLOCKS.get(name, "float32")
    plain = values.dequantize() if values.dtype.kind == "q" else values
    scale = np.abs(weight).max()
    loose = name in (
        "compressed w8a16",
        "compressed nvfp4",
        "compressed mxfp6",
        "compressed w4a16 half",
    )  # in 16 bits
    np.testing.assert_allclose(plain.numpy(), weight, atol=scale * (4e-3 if loose else 1e-6))
    _, half = dequantized({"quantization_config": CONFIGS[name], "dtype": "bfloat16"}, tensors)
    assert half["m.weight"].dtype.name in ("bfloat16", BLOCKS.get(name))


def test_double_quantization_that_lies_is_refused() -> None:
    name = "bnb nf4 True 64 (24, 64)"
    for part, value, message in (
        ("weight.absmax", rl.zeros(3, dtype="uint8"), "nested_absmax has 1|absmax is"),
        ("weight.nested_quant_map", rl.zeros(5), "nested_quant_map of 256 numbers"),
        ("weight", rl.zeros(9, dtype="uint8"), "has 9 bytes"),
        ("weight.quant_state.bitsandbytes__nf4", rl.zeros(4, dtype="uint8"), "quant_state"),
        ("weight.quant_map", rl.zeros(15), "quant_map of 16 numbers"),
    ):
        tensors, _ = stored_case(name)
        tensors[f"m.{part}"] = value
        with pytest.raises(rl.FormatError, match=message):
            dequantized({"quantization_config": CONFIGS[name]}, tensors)


def test_groups_have_targets_and_layers_sizes_of_their_own() -> None:
    """By a module's name, then by a pattern, then by its class."""
    eight, weight = stored_case("compressed w8a8 asym")
    four, wanted = stored_case("compressed w4a16 asym")
    three, third = stored_case("compressed w3")
    groups = {
        "group_0": CONFIGS["compressed w8a8 asym"]["config_groups"]["group_0"],
        "group_1": CONFIGS["compressed w4a16 asym"]["config_groups"]["group_0"]
        | {"targets": [r"re:.*layers\.\d+\.four$"]},
        "group_2": CONFIGS["compressed w3"]["config_groups"]["group_0"] | {"targets": ["three"]},
    }
    tensors = {n.replace("m.", "eight."): t for n, t in eight.items()}
    tensors |= {n.replace("m.", "layers.0.four."): t for n, t in four.items()}
    tensors |= {n.replace("m.", "three."): t for n, t in three.items()}
    given: dict[str, Any] = {
        "quant_method": "compressed-tensors",
        "format": "mixed-precision",
        "config_groups": groups,
    }
    _, found = dequantized({"quantization_config": given}, tensors)
    for name, expected in (("eight", weight), ("layers.0.four", wanted), ("three", third)):
        np.testing.assert_allclose(found[f"{name}.weight"].numpy(), expected, atol=1e-6)
    groups["group_1"]["targets"] = [r"re:(.+)(?<=x)+"]
    with pytest.raises(rl.FormatError, match="looking behind"):
        dequantized({"quantization_config": given}, tensors)
    parts, _ = packed("gptq", 4, 48, 32, 16)
    more, expected = packed("gptq", 8, 64, 32, 32)
    tensors = {f"a.{n}": rl.tensor(t) for n, t in parts.items()}
    tensors |= {f"b.{n}": rl.tensor(t) for n, t in more.items()}
    given = {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": 16,
        "checkpoint_format": "gptq",
        "dynamic": {"+:b": {"bits": 8, "group_size": 32}},
    }
    _, found = dequantized({"quantization_config": given}, tensors)
    np.testing.assert_allclose(found["b.weight"].numpy(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_layers_are_refused_alike(seed: int) -> None:
    """Other shapes, dtypes, values and missing tensors: read, or FormatError or LoadError."""
    rng = np.random.default_rng(seed)
    values: list[Any] = [None, 0, -1, 3, 1 << 40, "x", [], [1], {}, True, 1.5, "channel", [0, 0]]
    for name in CONFIGS:
        tensors, _ = stored_case(name)
        config = json.loads(json.dumps(CONFIGS[name]))
        for _ in range(2):
            part = str(rng.choice(sorted(tensors)))
            kind = rng.integers(5)
            if kind == 0:
                del tensors[part]
            elif kind == 1:
                tensors[part] = rl.zeros(*rng.integers(0, 5, rng.integers(0, 3)).tolist())
            elif kind == 2:
                tensors[part] = tensors[part].reshape(-1)
            elif kind == 3:
                tensors[part] = tensors[part].unsqueeze(0)
            else:
                inner = config
                while True:
                    key = str(rng.choice(sorted(inner)))
                    if not (isinstance(inner[key], dict) and inner[key]):
                        break
                    inner = inner[key]
                inner[key] = values[rng.integers(len(values))]
            if not tensors:
                break
        with contextlib.suppress(rl.FormatError, rl.LoadError):
            dequantized({"quantization_config": config}, tensors)


# --- hqq's own file, qmodel.pt ------------------------------------------------------------------


def hqq_layer(axis: int, bits: int, double: bool) -> tuple[dict[str, Any], Array]:
    """A layer as hqq pickles it, its numbers 64 by 64 in groups of 32; and its weight."""
    rng, size = np.random.default_rng(bits + axis), (64, 64)
    rows, columns = (32, 128) if axis == 0 else (128, 32)
    q = rng.integers(0, 1 << bits, (rows, columns)).astype(np.uint8)
    each = 8 // bits
    parts = q.reshape(each, rows // each, columns)
    packed = sum(part << np.uint8(8 - bits * (i + 1)) for i, part in enumerate(parts))
    factors: dict[str, Array] = {}
    meta: dict[str, Any] = {"nbits": bits, "group_size": 32, "shape": size, "axis": axis}
    meta |= {"packing": f"{bits}bit_u8", "view_as_float": False, "unpack_view_dtype": rl.uint8}
    flat = (1, 128) if axis == 0 else (128, 1)
    for part in ("scale", "zero"):
        factors[part] = rng.normal(size=flat).astype(np.float32)
        meta[f"quant_{part}"] = double
        if double:
            codes = rng.integers(0, 256, flat).astype(np.uint8)
            factors[part] = (codes - np.float32(3.25)) * np.float32(0.02)
            meta[f"{part}_q"] = rl.tensor(codes)
            meta[f"meta_{part}"] = {
                "nbits": 8, "group_size": None, "shape": flat, "scale": rl.tensor(0.02),
                "zero": rl.tensor(3.25), "axis": 0, "packing": "8bit_u8", "view_as_float": False,
            }  # fmt: skip
        else:
            meta[part] = rl.tensor(factors[part])
    weight = (q - factors["zero"].astype(np.float64)) * factors["scale"]
    return {"W_q": rl.tensor(np.ascontiguousarray(packed)), "meta": meta}, weight.reshape(size)


@pytest.mark.parametrize(
    ("axis", "bits", "double", "form"),
    [
        (1, 4, False, "old"), (0, 4, True, "old"), (0, 2, True, "new"), (1, 8, False, "new"),
        (1, 4, False, "flat"), (0, 4, False, "pair"),
    ],
)  # fmt: skip
def test_hqqs_own_file_loads(axis: int, bits: int, double: bool, form: str, tmp_path: Path) -> None:
    """Its qmodel.pt has a dict for each module, with plain values beside the tensors."""
    config = config_of(hidden_size=64, intermediate_size=64, torch_dtype="float32")
    blank = rl.models.families.family_of("llama", "").build(config, [])
    layer, weight = hqq_layer(axis, bits, double)
    if form == "pair":
        meta = layer["meta"]
        meta["zero_scale"] = rl.stack([meta.pop("zero"), meta.pop("scale")])
    saved: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for name, p in blank.named_parameters():
        stem = name.removesuffix(".weight")
        if name.endswith("_proj.weight") and p.shape == (64, 64):
            plain[name] = rl.tensor(weight.astype(np.float32))
            new = {"W_q": layer["W_q"], "offload_meta": False} | layer["meta"]
            saved[stem] = layer | {"bias": None} if form in ("old", "pair") else new
        else:
            plain[name] = rl.randn(p.shape)
            saved[stem] = {"weight": plain[name]}
    if form == "flat":
        saved = {f"{stem}.{key}": value for stem, m in saved.items() for key, value in m.items()}
    rl.save(saved, tmp_path / "qmodel.pt")
    (tmp_path / "config.json").write_text(json.dumps(config))
    ids = rl.tensor([[3, 1, 4, 1, 5]])
    wanted = rl.models.assemble({"config.json": json.dumps(config).encode()}, plain)
    with rl.no_grad():
        numbers, right = (m(ids).numpy() for m in (rl.models.load(tmp_path), wanted))
    np.testing.assert_allclose(numbers, right, atol=np.abs(right).max() * 1e-5)
    short = rl.models.load(tmp_path, dtype="bfloat16")
    held = dict(short.named_parameters())["model.layers.0.self_attn.q_proj.weight"]
    assert held.dtype is (rl.q4_1 if (axis, bits) == (1, 4) else rl.bfloat16)
    values = held.dequantize() if held.dtype.kind == "q" else held
    np.testing.assert_allclose(
        values.detach().float().numpy(), weight, atol=np.abs(weight).max() / 50
    )


def test_hqq_without_its_second_scales_is_refused() -> None:
    layer, _ = hqq_layer(0, 4, True)
    kept = {k: v for k, v in layer["meta"].items() if k != "meta_scale"}
    encoded = {
        f"a.{k}": rl.tensor([ord(c) for c in v]) if isinstance(v, str) else rl.tensor(v)
        for k, v in kept.items()
        if k in ("shape", "axis", "group_size", "packing", "quant_scale", "scale_q")
    }
    encoded |= {"a.W_q": layer["W_q"], "a.zero": rl.zeros(1, 128)}
    with pytest.raises(rl.FormatError, match="quant_scale is true, but there is no meta_scale"):
        dequantized({"quantization_config": {"quant_method": "hqq"}}, encoded)

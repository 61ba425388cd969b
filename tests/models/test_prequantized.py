"""fp8, GPTQ and AWQ checkpoints: the weights are those of unpacking by the papers, in float64."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import save_safetensors
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
    method: str, bits: int, inside: int, outside: int, size: int, shuffled: bool = False,
    less: int = 1, middle: int | None = None,
) -> tuple[dict[str, Array], Array]:  # fmt: skip
    """The tensors of a layer, and its weight (out, in) in float64."""
    rng, most = np.random.default_rng(bits + inside), 1 << bits
    groups = -(-inside // size)
    q = rng.integers(0, most, (inside, outside))
    zeros = rng.integers(1, most, (groups, outside)) if middle is None else np.full(
        (groups, outside), middle)  # fmt: skip
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
    found = {"qweight": np.ascontiguousarray(along), "qzeros": words_of(stored, bits, order),
             "scales": scales}  # fmt: skip
    return found | ({"g_idx": of.astype(np.int32)} if method == "gptq" else {}), weight


def config_of(**changes: Any) -> dict[str, Any]:
    return {
        "model_type": "llama", "vocab_size": 20, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 1, "num_attention_heads": 4, "tie_word_embeddings": True, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "bits", "size", "rest"),
    [
        ("gptq", 4, 16, {"shuffled": True}),
        ("gptq", 4, 48, {"middle": 8}),
        ("gptq", 8, 32, {}),
        ("gptq", 2, 24, {}),
        ("gptq", 4, 16, {"less": 0}),
        ("awq", 4, 16, {}),
    ],
)
def test_packed_weights(method: str, bits: int, size: int, rest: dict[str, Any]) -> None:
    parts, weight = packed(method, bits, 48, 32, size, **rest)
    given = {"quant_method": method, "bits": bits, "group_size": -1 if size == 48 else size}
    given["checkpoint_format"] = "gptq" if rest.get("less", 1) else "gptq_v2"
    tensors = {f"a.{part}": rl.tensor(value) for part, value in parts.items()}
    tensors["a.bias"] = rl.zeros(32)
    plain, found = dequantized({"quantization_config": given}, tensors)
    assert plain == {} and set(found) == {"a.weight", "a.bias"}
    np.testing.assert_allclose(found["a.weight"].numpy(), weight, rtol=1e-6, atol=1e-7)
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
        ({"quant_method": "bitsandbytes"}, "'bitsandbytes' is not supported; supported: awq, fp8"),
        ({}, "None is not supported"),
        ("gptq", "not an object"),
        ({"quant_method": "gptq", "bits": 3}, "bits is 3; it must be 2 or 4 or 8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size is 0"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:a": {}}}, "dynamic"),
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

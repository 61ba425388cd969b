"""Experts in MXFP4 as transformers stores them, layers that are not used, latents in the cache."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.families import family_of
from rushlight.models.parts import gate_and_up, join_blocks

# The sixteen floats of four bits (OCP Microscaling Formats 1.0).
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
Array = npt.NDArray[Any]


def widened(blocks: Array, scales: Array) -> Array:
    """(..., n, 16) bytes and (..., n) scales -> (..., 32 n): low nibbles first, by the format."""
    pairs = np.stack([E2M1[blocks & 15], E2M1[blocks >> 4]], -1)
    values = pairs.reshape(*scales.shape, 32) * 2.0 ** (scales.astype(int) - 127)[..., None]
    return values.reshape(*scales.shape[:-1], -1).astype(np.float32)


def test_blocks_and_scales_are_one_tensor() -> None:
    draws = np.random.default_rng(1)
    blocks = draws.integers(0, 256, (2, 3, 2, 16)).astype(np.uint8)
    scales = draws.integers(100, 140, (2, 3, 2)).astype(np.uint8)
    given = {"a_blocks": rl.from_numpy(blocks), "a_scales": rl.from_numpy(scales)}
    whole = join_blocks(given)["a"]
    assert (whole.dtype.name, whole.shape) == ("mxfp4", (2, 3, 64))
    np.testing.assert_array_equal(whole.dequantize().numpy(), widened(blocks, scales))
    with pytest.raises(rl.LoadError, match="a_blocks is uint8 .2, 3, 2, 16., a_scales"):
        join_blocks({**given, "a_scales": rl.from_numpy(scales[:1])})


def test_a_model_with_such_experts(table: ModuleType) -> None:
    folder = Path(__file__).parent / "data" / "families"
    found = open_tables(folder / "gpt_oss-gguf.safetensors")[0][1].metadata
    config = json.loads(found["config"]) | {"hidden_size": 64, "intermediate_size": 96}
    wide: dict[str, Any] = {}
    packed: dict[str, Any] = {}
    draws = np.random.default_rng(2)
    for name, shape in json.loads(found["names"]).items():
        shape = [64 if n == 48 else 96 if n == 56 else 192 if n == 112 else n for n in shape]
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, inside, outside = shape
            blocks = draws.integers(0, 256, (experts, outside, inside // 32, 16)).astype(np.uint8)
            scales = draws.integers(122, 126, (experts, outside, inside // 32)).astype(np.uint8)
            packed[name + "_blocks"] = rl.from_numpy(blocks)
            packed[name + "_scales"] = rl.from_numpy(scales)
            wide[name] = rl.from_numpy(widened(blocks, scales).swapaxes(1, 2).copy())
        else:
            wide[name] = packed[name] = rl.tensor(table.values_of(name, tuple(shape)))
    ids = rl.tensor(table.ids_of(131))
    plain = rl.models.assemble({"config.json": json.dumps(config).encode()}, wide)
    config["quantization_config"] = {"quant_method": "mxfp4"}
    m = rl.models.assemble({"config.json": json.dumps(config).encode()}, packed)
    kept = {n: t.dtype.name for n, t in m.state_dict().items() if t.dtype.kind == "q"}
    assert len(kept) == 3 * config["num_hidden_layers"] and {*kept.values()} == {"mxfp4"}
    with rl.no_grad():
        expected = plain(ids).numpy()
        assert np.abs(m(ids).numpy() - expected).max() < 1e-4 * np.abs(expected).max()
    config["quantization_config"] = {"quant_method": "bitsandbytes"}
    with pytest.raises(rl.FormatError, match="quantization_config 'bitsandbytes' is not supported"):
        rl.models.assemble({"config.json": json.dumps(config).encode()}, packed)


def test_halves_of_a_stack_stay_where_they_lie() -> None:
    """Rows of each expert are contiguous: a mapped file's pages stay, and are not copied."""
    [split] = gate_and_up("input.weight", "").values()
    stack = rl.rand(3, 4, 2)
    gate, up = (take(stack) for take in split.parts.values())
    assert gate.storage is up.storage is stack.storage
    assert rl.equal(split.join(gate, up), stack)


def test_layers_past_the_last_and_the_cache_of_latents(
    table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    found = open_tables(Path(__file__).parent / "data" / "families" / "deepseek_v3.safetensors")[0][
        1
    ].metadata
    config = json.loads(found["config"]) | {"num_nextn_predict_layers": 1}
    tensors = {
        n: rl.tensor(table.values_of(n, tuple(shape)))
        for n, shape in json.loads(found["names"]).items()
    }
    more = {"model.layers.3.eh_proj.weight": rl.ones(48, 96)}
    m = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors | more)
    cache = m.new_cache(2)
    with rl.no_grad():
        m(rl.tensor(table.ids_of(131)), cache)
    # A row of the latent and of the shared key per token and layer, for all four heads.
    assert cache.nbytes == 2 * 3 * cache.capacity * (16 + 6) * 4
    config["num_nextn_predict_layers"] = 0
    rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors | more)
    assert "1 tensors of the checkpoint are not used: model.layers.3" in caplog.text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "q8_0"])
def test_attending_to_latents_equals_expanding_them(
    table: ModuleType, device: str, dtype: str
) -> None:
    """By a projection of any storage dtype, for one query and several, in a batch."""
    folder = Path(__file__).parent / "data" / "families"
    known = json.loads(open_tables(folder / "deepseek_v3.safetensors")[0][1].metadata["config"])
    config = known | {"kv_lora_rank": 32, "qk_nope_head_dim": 7, "v_head_dim": 9}
    made = family_of("deepseek_v3", "model_type").build(config, ["lm_head.weight"])
    tensors = {
        n: rl.tensor(table.values_of(n, tuple(p.shape))).float() for n, p in made.named_parameters()
    }
    for name in tensors:
        if name.endswith("kv_b_proj.weight"):
            tensors[name] = tensors[name].to(dtype)
    m = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors, device=device)
    ids = rl.tensor(np.random.default_rng(3).integers(0, 97, (2, 40)), device=device)
    with rl.no_grad():
        whole, cache, parts = m(ids), m.new_cache(2), []
        for start, stop in ((0, 35), (35, 36), (36, 40)):  # many, one, a few
            parts.append(m(ids[:, start:stop], cache))
    difference = (rl.cat(parts, 1) - whole).abs().max().item()
    assert difference < 2e-5 * whole.abs().max().item()


@pytest.mark.parametrize(
    ("known", "lie", "named"),
    [
        ("llama4", {"moe_layers": 3}, "moe_layers is 3"),
        ("llama4", {"no_rope_layers": [1, "a", 1, 1, 1]}, "no_rope_layers is .* must be 5 numbers"),
        ("llama4", {"attention_chunk_size": 0}, "attention_chunk_size is 0"),
        ("deepseek_v3", {"kv_lora_rank": 0}, "kv_lora_rank"),
        ("deepseek_v3", {"n_group": 3}, "3 of 8 experts in 3 groups"),
        ("gpt_oss", {"num_experts_per_tok": 6}, "6 of 5 experts"),
        ("phimoe", {"num_experts_per_tok": 3}, "num_experts_per_tok is 3"),
    ],
)
def test_a_config_that_lies_is_named(known: str, lie: dict[str, Any], named: str) -> None:
    found = open_tables(Path(__file__).parent / "data" / "families" / f"{known}.safetensors")
    config = json.loads(found[0][1].metadata["config"]) | lie
    family = family_of(config["model_type"], "model_type")
    with pytest.raises(rl.FormatError, match=named):
        family.build(config, [])

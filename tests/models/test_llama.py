"""Llama on tiny random checkpoints agrees with transformers, however it is fed and stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.loading import from_gguf

PATH = Path(__file__).parent / "data" / "llama_tiny.safetensors"
CONFIGS: dict[str, Any] = {n: json.loads(c) for n, c in open_tables(PATH)[0][1].metadata.items()}
GOLDEN = load_safetensors(PATH)
IDS, MASK = GOLDEN["in.ids"].numpy(), GOLDEN["in.mask"].numpy()
# float32 sums in another order; the goldens are float32 too.
CLOSE: Any = {"rtol": 1e-4, "atol": 2e-5}
Array = npt.NDArray[Any]


def checkpoint(name: str) -> dict[str, rl.Tensor]:
    prefix = f"{name}/model."
    return {n.removeprefix(prefix): t for n, t in GOLDEN.items() if n.startswith(prefix)}


def model(name: str, device: str = "cpu", **changes: Any) -> Any:
    files = {"config.json": json.dumps({**CONFIGS[name], **changes}).encode()}
    return rl.models.assemble(files, checkpoint(name), device=device)


def run(m: Any, ids: Array, *rest: Any, **options: Any) -> Array:
    with rl.no_grad():
        found: Array = m(rl.tensor(ids, device=m.device), *rest, **options).float().numpy()
    return found


def frequencies(m: Any) -> list[float]:
    """Of the rotary positions, which are the same in all layers."""
    (rope,) = m.rotary.ropes.values()
    found: list[float] = rope.frequencies
    return found


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_agree(name: str, device: str) -> None:
    m = model(name, device)
    if name == "bf16":  # as it is stored, activations are rounded to bfloat16
        assert m.model.norm.weight.dtype is rl.bfloat16
        rounded = run(m, IDS)
        assert np.abs(rounded - GOLDEN["bf16/out"].numpy()).max() < 0.15
        files = {"config.json": json.dumps(CONFIGS[name]).encode()}
        m = rl.models.assemble(files, checkpoint(name), device=device, dtype="float32")
    found = run(m, IDS)
    assert found.shape == (2, 13, 64)
    np.testing.assert_allclose(found, GOLDEN[f"{name}/out"].numpy(), **CLOSE)
    np.testing.assert_allclose(run(m, IDS, logits_to_keep=1)[:, 0], found[:, -1], **CLOSE)
    padded = run(m, IDS, attention_mask=rl.tensor(MASK, device=device))
    np.testing.assert_allclose(padded[MASK], GOLDEN[f"{name}/padded"].numpy()[MASK], **CLOSE)
    greedy = [t.id for t in m.tokens(IDS[0].tolist(), max_new_tokens=10)]
    expected = GOLDEN[f"{name}/greedy"].tolist()
    assert greedy == expected[: expected.index(2) + 1 if 2 in expected else None]


def test_the_goldens_cover_what_they_say() -> None:
    assert CONFIGS["grouped"]["tie_word_embeddings"]
    assert "lm_head.weight" not in checkpoint("grouped")
    assert "model.layers.0.self_attn.q_proj.bias" in checkpoint("biased")
    scaled = frequencies(model("llama3"))
    plain = [100 ** (-i / 4) for i in range(4)]
    ratios = [p / s for p, s in zip(plain, scaled, strict=True)]
    # Short wavelengths are kept, long ones stretched by the factor, the band between in part.
    assert ratios[0] == 1 and any(1 < r < 8 for r in ratios) and ratios[-1] == pytest.approx(8)
    assert [p / s for p, s in zip(plain, frequencies(model("linear")), strict=True)] == [4] * 4


def test_sharded_checkpoints_load(tmp_path: Path) -> None:
    tensors = checkpoint("biased")
    names = sorted(tensors)
    where: dict[str, str] = {}
    for i, part in enumerate((names[::2], names[1::2])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        rl.save({n: tensors[n] for n in part}, tmp_path / file)
        where |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": where}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["biased"]))
    found = run(rl.models.load(tmp_path), IDS)
    np.testing.assert_allclose(found, GOLDEN["biased/out"].numpy(), **CLOSE)


def test_names_without_the_prefix_and_tied_heads_load() -> None:
    tensors = {n.removeprefix("model."): t for n, t in checkpoint("grouped").items()}
    config = {k: v for k, v in CONFIGS["grouped"].items() if k != "tie_word_embeddings"}
    m = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)
    np.testing.assert_allclose(run(m, IDS), GOLDEN["grouped/out"].numpy(), **CLOSE)


# --- the cache -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[13], [1] * 13, [5, 8], [12, 1], [4, 1, 1, 7]])
def test_a_cache_changes_nothing(sizes: list[int], device: str) -> None:
    m = model("grouped", device)
    cache, found, at = m.new_cache(2), [], 0
    for size in sizes:
        found.append(run(m, IDS[:, at : at + size], cache))
        at += size
    np.testing.assert_allclose(np.concatenate(found, 1), GOLDEN["grouped/out"].numpy(), **CLOSE)
    assert cache.longest == 13 and cache.lengths.tolist() == [13, 13]


def test_rows_of_different_lengths(device: str) -> None:
    """Padding on the right: each row goes on behind its own end."""
    m = model("grouped", device)
    lengths, padded = [13, 6], IDS.copy()
    padded[1, 6:] = 0
    cache = m.new_cache(2)
    real = rl.tensor(lengths, device=device)
    first = run(m, padded, cache, logits_to_keep=1, lengths=real)
    more = np.array([[7, 8], [9, 10]])
    then = run(m, more, cache)
    for row, n in enumerate(lengths):
        alone = run(m, np.concatenate([IDS[row : row + 1, :n], more[row : row + 1]], 1))[0]
        np.testing.assert_allclose(first[row, 0], alone[n - 1], **CLOSE)
        np.testing.assert_allclose(then[row], alone[n:], **CLOSE)
    assert cache.lengths.tolist() == [15, 8]


def test_truncate_and_fork(device: str) -> None:
    m = model("plain", device)
    cache = m.new_cache(2)
    run(m, IDS, cache)
    other = cache.fork()
    cache.truncate(4)
    found = run(m, IDS[:, 4:], cache)
    np.testing.assert_allclose(found, GOLDEN["plain/out"].numpy()[:, 4:], **CLOSE)
    run(m, IDS[:, :3], cache)
    assert other.lengths.tolist() == [13, 13] and cache.lengths.tolist() == [16, 16]
    alone = run(m, np.concatenate([IDS, IDS[:, :2]], 1))[:, 13:]
    np.testing.assert_allclose(run(m, IDS[:, :2], other), alone, **CLOSE)
    with pytest.raises(ValueError, match="length is -1"):
        cache.truncate(-1)


def test_the_cache_grows_and_ends_at_the_context() -> None:
    m = model("plain", max_position_embeddings=600)
    cache = m.new_cache()
    ids = np.random.default_rng(0).integers(0, 64, (1, 600))
    run(m, ids[:, :200], cache)
    assert cache.capacity == 256 and cache.nbytes == 2 * 256 * 32 * 4
    grown = run(m, ids[:, 200:300], cache)
    assert cache.capacity == 512
    np.testing.assert_allclose(grown, run(m, ids[:, :300])[:, 200:], rtol=1e-3, atol=1e-4)
    run(m, ids[:, 300:], cache)
    assert cache.capacity == 600
    with pytest.raises(ValueError, match="601 tokens do not fit the context of 600"):
        run(m, ids[:, :1], cache)
    with pytest.raises(ValueError, match=r"ids are \(1, 601\); they must be \(batch, up to 600"):
        run(m, np.zeros((1, 601), np.int64))


def test_a_cache_keeps_no_gradients() -> None:
    m = model("plain")
    with pytest.raises(RuntimeError, match=r"run the model in no_grad\(\)"):
        m(rl.tensor(IDS), m.new_cache(2))
    m(rl.tensor(IDS)).float().sum().backward()
    assert m.model.layers[0].self_attn.q_proj.weight.grad is not None
    with pytest.raises(ValueError, match="attention_mask or a cache, not both"):
        run(m, IDS, m.new_cache(2), attention_mask=rl.tensor(MASK))


# --- GGUF ----------------------------------------------------------------------------------------

NAMES = {
    "embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}


def interleaved(w: Array, heads: int) -> Array:
    """The rows of q or k as llama.cpp's converter orders them."""
    return w.reshape(heads, 2, len(w) // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


def write_gguf(path: Path, name: str, kind: str) -> dict[str, rl.Tensor]:
    """A checkpoint as a GGUF file by the reference; gives the float32 values it holds."""
    import gguf

    config = CONFIGS[name]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        plain = [rope["rope_theta"] ** (-i / 4) for i in range(4)]
        factors = [p / s for p, s in zip(plain, frequencies(model(name)), strict=True)]
        writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
    values: dict[str, rl.Tensor] = {}
    number = gguf.GGMLQuantizationType[kind]
    for full, tensor in checkpoint(name).items():
        parts = full.split(".")
        part = "model.norm" if full == "model.norm.weight" else parts[-2]
        layer = f"blk.{parts[2]}." if "layers" in parts else ""
        w = tensor.float().numpy()
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(part)
        moved = interleaved(w, config[heads]) if heads else w
        target = f"{layer}{NAMES[part]}.{parts[-1]}"
        if w.ndim == 1:
            writer.add_tensor(target, moved.astype(np.float32))
            values[full] = rl.tensor(w)
            continue
        stored = gguf.quants.quantize(np.ascontiguousarray(moved), number)
        writer.add_tensor(target, stored, raw_dtype=number)
        same_rows = gguf.quants.quantize(np.ascontiguousarray(w), number)
        values[full] = rl.tensor(gguf.quants.dequantize(same_rows, number).reshape(w.shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


@pytest.mark.native
@pytest.mark.parametrize("name", ["plain", "grouped", "biased", "llama3", "linear"])
@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_gguf_equals_the_checkpoint(name: str, kind: str, tmp_path: Path, device: str) -> None:
    values = write_gguf(tmp_path / "m.gguf", name, kind)
    m: Any = rl.models.load(tmp_path / "m.gguf", device=device)
    weight = m.model.layers[0].self_attn.q_proj.weight
    assert weight.dtype.name == {"F32": "float32", "F16": "float16"}.get(kind, kind.lower())
    assert m.model.norm.weight.dtype is rl.float32
    files = {"config.json": json.dumps(CONFIGS[name]).encode()}
    same = rl.models.assemble(files, values, device=device)
    near: Any = {"rtol": 2e-2, "atol": 5e-2} if kind == "F16" else {"rtol": 1e-3, "atol": 1e-4}
    np.testing.assert_allclose(run(m, IDS), run(same, IDS), **near)
    if kind == "F32":
        np.testing.assert_allclose(run(m, IDS), GOLDEN[f"{name}/out"].numpy(), **CLOSE)


@pytest.mark.native
@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0", "Q5_1"])
def test_rows_are_put_in_order_where_the_tensors_are(
    kind: str, tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the tab, where a file comes straight into the memory of its device."""
    write_gguf(tmp_path / "m.gguf", "biased", kind)
    usual: Any = rl.models.load(tmp_path / "m.gguf")
    tensors, metadata = load_gguf(tmp_path / "m.gguf")
    there = {n: t.to(device) for n, t in tensors.items()}
    with monkeypatch.context() as patch:
        if device != "cpu":
            backend = type(rl.device(device).backend)
            patch.delattr(backend, "download")
            patch.delattr(backend, "download_async")
        m: Any = from_gguf(metadata, there, device=device)
    for name, stored in usual.state_dict().items():
        assert m.state_dict()[name].raw_bytes() == stored.raw_bytes(), name


@pytest.mark.native
def test_gguf_files_that_do_not_fit_are_told(tmp_path: Path) -> None:
    from rushlight.core.io.weights.gguf import load_gguf

    write_gguf(tmp_path / "m.gguf", "grouped", "F32")
    tensors, metadata = load_gguf(tmp_path / "m.gguf")
    with pytest.raises(
        rl.LoadError, match="general.architecture 'quux' is not supported; supported: .*, llama, "
    ):
        from_gguf({**metadata, "general.architecture": "quux"}, tensors)
    with pytest.raises(rl.LoadError, match=r"'blk\.0\.beads', which llama does not have"):
        from_gguf(metadata, {**tensors, "blk.0.beads": rl.zeros(2)})
    few = {n: t for n, t in tensors.items() if n != "blk.1.attn_q.weight"}
    with pytest.raises(rl.LoadError, match=r"model\.layers\.1\.self_attn\.q_proj\.weight"):
        from_gguf(metadata, few)
    with pytest.raises(rl.FormatError, match="does not divide into 5 heads"):
        from_gguf({**metadata, "llama.attention.head_count": 5}, tensors)
    with pytest.raises(rl.FormatError, match=r"llama.attention.head_count is array\(\[4, 4\]\)"):
        from_gguf({**metadata, "llama.attention.head_count": np.array([4, 4])}, tensors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_key_value_heads": 3}, "4 is not a multiple of num_key_value_heads 3"),
        ({"head_dim": 7}, "head_dim 7 is not even"),
        (
            {"hidden_act": "laplace"},
            "hidden_act 'laplace' is not supported; supported: gelu, .*silu",
        ),
        ({"rope_parameters": 3}, "rope_parameters is 3; it must be an object"),
        (
            {"rope_parameters": {"rope_type": "unheard"}},
            "rope_scaling of type 'unheard' is not supported",
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": -2.0}},
            "factor -2.0; it must be posi",
        ),
        (
            {"rope_parameters": {"rope_type": "longrope", "factor": 2.0, "short_factor": [1.0]}},
            "positive numbers as short_factor, one per frequency",
        ),
        ({"rope_parameters": {"rope_type": "linear"}}, "has factor None; it must be positive"),
        ({"hidden_size": None}, "hidden_size"),
    ],
)
def test_configurations_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(rl.FormatError, match=message):
        model("plain", **changes)


@pytest.mark.native
def test_gguf_files_without_a_vocabulary(tmp_path: Path) -> None:
    from rushlight.core.io.weights.gguf import load_gguf

    write_gguf(tmp_path / "m.gguf", "grouped", "F32")
    tensors, metadata = load_gguf(tmp_path / "m.gguf")
    for kind in ("none", "no_vocab"):
        m: Any = from_gguf({**metadata, "tokenizer.ggml.model": kind}, dict(tensors))
        assert m.tokenizer is None
    with pytest.raises(rl.FormatError, match="'plamo2' vocabularies"):
        from_gguf({**metadata, "tokenizer.ggml.model": "plamo2"}, dict(tensors))


def test_a_bias_in_blocks_is_refused() -> None:
    """Rows of pairs are moved as they are stored, and a block is no part of a row of one number."""
    from rushlight.models.gguf.architecture import halves

    move = halves("heads").undo
    moved = move(rl.arange(8).float(), {"heads": 1})
    np.testing.assert_array_equal(moved.numpy(), [0, 2, 4, 6, 1, 3, 5, 7])
    with pytest.raises(rl.FormatError, match="a bias has floats"):
        move(rl.zeros(64).to("q8_0"), {"heads": 2})

"""Whisper: its decoding state, attention, tokens, and files of CTranslate2 and whisper.cpp."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import as_dtype
from rushlight.core.io.weights.ctranslate2 import read_ctranslate2
from rushlight.core.io.weights.pickles.storages import read_storages
from rushlight.core.io.weights.source import BytesSource
from rushlight.core.io.weights.whisper_ggml import read_whisper_ggml
from rushlight.core.tensor.quantizing import quantized
from rushlight.models.layers.speech.tokens import SpeechTokens, special_tokens, stored_tokens

Array = npt.NDArray[Any]
CLOSE: Any = {"rtol": 1e-4, "atol": 5e-5}
WIDTH, HEADS, INNER, MELS, FRAMES, CONTEXT = 32, 2, 128, 6, 7, 12
# As small as a vocabulary that has every special token of the English models.
TEXT = ["".join(chr(b)) for b in range(33, 60)]


def model(rows: ModuleType, table: ModuleType, device: str = "cpu") -> Any:
    return rows.model("whisper", table, device)


def inputs(m: Any, table: ModuleType) -> tuple[Any, Array]:
    config = {"num_mel_bins": m.mels, "max_source_positions": m.frames}
    features = rl.tensor(table.features_of(config), device=m.device)
    return features, table.decoder_ids_of(m.vocab_size)


# --- the decoding state ---------------------------------------------------------------------------


def test_steps_equal_the_whole(device: str, rows: ModuleType, table: ModuleType) -> None:
    m = model(rows, table, device)
    features, ids = inputs(m, table)
    wanted = rows.golden("whisper")[0]
    with rl.no_grad():
        states = m.encode(features)
    state = m.start(states, copies=2)
    twice = np.repeat(ids, 2, 0)  # the rows of one audio follow each other
    for _ in range(2):  # again with what was captured
        found = [
            m.step(state, twice[:, a : a + n]).numpy().copy()
            for a, n in ((0, 3), (3, 1), (4, 1), (5, 4))
        ]
        np.testing.assert_allclose(np.concatenate(found, 1), np.repeat(wanted, 2, 0), **CLOSE)
        assert m.start(states, copies=2, reuse=state) is state and state.length == 0


def test_rows_are_reordered_chosen_and_multiplied(rows: ModuleType, table: ModuleType) -> None:
    m = model(rows, table)
    features, ids = inputs(m, table)
    with rl.no_grad():
        states = m.encode(features)
        whole = m(features[1:], rl.tensor(np.array([[*ids[0, :4], 5]]))).numpy()[0, -1]
    state = m.start(states)
    state.step(np.repeat(ids[:1, :4], 2, 0))
    beams = state.select([1], copies=3)
    state.step([[1], [2]])  # does not reach the other state
    first = beams.step([[7], [5], [8]]).numpy()[1, 0]
    np.testing.assert_allclose(first, whole, **CLOSE)
    then = beams.step([[1], [9], [1]]).numpy()[1, 0].copy()
    beams.truncate(5)
    beams.reorder([1, 1, 1])
    for row in beams.step([[9], [9], [9]]).numpy()[:, 0]:
        np.testing.assert_allclose(row, then, **CLOSE)


def test_what_does_not_fit_is_named(rows: ModuleType, table: ModuleType) -> None:
    m = model(rows, table)
    features, ids = inputs(m, table)
    states = m.encode(features)
    with pytest.raises(ValueError, match=r"features are \(2, 10, 24\); they must be \(batch, 10"):
        m.encode(rl.zeros(2, 10, 24))
    with pytest.raises(TypeError, match="features are int64"):
        m.encode(rl.zeros(2, 10, 22, dtype=rl.int64))
    state = m.start(states)
    with pytest.raises(ValueError, match=r"ids are \(1, 2\); they must be \(2, n\)"):
        state.step([[1, 2]])
    state.step(np.tile(ids, (1, 2)))
    with pytest.raises(ValueError, match="21 tokens do not fit the context of 20"):
        state.step([[1] * 3] * 2)
    with pytest.raises(ValueError, match="must name 2 rows, each of its audio"):
        state.reorder([1, 0])
    with pytest.raises(IndexError, match="must be some of 2"):
        state.select([2])
    with pytest.raises(ValueError, match="head 3 of layer 0 does not exist"):
        m.cross_attention(states, rl.tensor(ids), [(0, 3)])


def test_fewer_frames_are_their_own_context(rows: ModuleType, table: ModuleType) -> None:
    m = model(rows, table)
    features, _ = inputs(m, table)
    assert m.encode(features[:, :, :9]).shape == (2, 5, 24)


def test_cross_attention_is_the_softmax_that_the_decoder_uses(
    device: str, rows: ModuleType, table: ModuleType
) -> None:
    """The values of a layer, weighted by these weights, are what its output projection reads."""
    m = model(rows, table, device)
    features, ids = inputs(m, table)
    placed, read = rl.tensor(ids, device=device), []
    cross = m.get_submodule("model.decoder.layers.1.encoder_attn")
    cross.out_proj.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    with rl.no_grad():
        states = m.encode(features)
        weights = m.cross_attention(states, placed, [(1, 2), (0, 1), (1, 0)])
        values = cross.memory(states)[1]
        own = (weights[:, 0] @ values[:, 2]).numpy()
    assert weights.shape == (2, 3, 9, 11)
    np.testing.assert_allclose(weights.numpy().sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(own, read[0].numpy()[..., 16:24], **CLOSE)


def test_quantized_weights_run(device: str, table: ModuleType) -> None:
    w = weights(table)
    plain = assembled(w)
    features, ids = features_and_ids()
    wanted = plain(rl.tensor(features), rl.tensor(ids)).detach().numpy()
    for kind, most in (("q8_0", 0.03), ("q5_0", 0.2)):
        m = assembled(w)
        m.quantize_(kind)
        assert sum(p.dtype.name == kind for p in m.parameters()) == 17
        m = m.to(device)
        with rl.no_grad():
            state = m.start(m.encode(rl.tensor(features, device=device)))
            found = state.step(ids).numpy()
        assert np.abs(found - wanted).max() < most * np.abs(wanted).max()


# --- tokens ---------------------------------------------------------------------------------------


def test_special_tokens_have_their_published_ids() -> None:
    english, several, newer = (special_tokens(n) for n in (51864, 51865, 51866))
    assert [51864 - len(english), 51865 - len(several), 51866 - len(newer)] == [50256, 50257, 50257]
    at = {t: 50257 + i for i, t in enumerate(several)}
    assert (at["<|startoftranscript|>"], at["<|en|>"], at["<|transcribe|>"]) == (
        50258,
        50259,
        50359,
    )
    assert (at["<|notimestamps|>"], at["<|0.00|>"], at["<|30.00|>"]) == (50363, 50364, 51864)
    assert newer.index("<|yue|>") + 50257 == 50358


def test_prompts_are_the_papers() -> None:
    ids = {"startoftranscript": 1, "translate": 3, "transcribe": 4, "notimestamps": 5}
    tokens = SpeechTokens(ids, 10, {"en": 2, "de": 6})
    assert tokens.prompt("de") == [1, 6, 4] and tokens.prompt(task="translate") == [1, 2, 3]
    assert tokens.timestamp_begin == 6 and tokens.startofprev is None
    with pytest.raises(ValueError, match="language 'xx' is not supported; supported: en, de"):
        tokens.prompt("xx")
    english = SpeechTokens(ids, 10)
    assert english.prompt(timestamps=False) == [1, 5]
    with pytest.raises(ValueError, match="English only"):
        english.prompt("de")


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"alignment_heads": [[0, 9]]}, "alignment_heads is"),
        ({"alignment_heads": 3}, "alignment_heads is 3"),
        ({"suppress_tokens": [97]}, "tokens of 97"),
        ({"begin_suppress_tokens": "x"}, "begin_suppress_tokens is 'x'"),
    ],
)
def test_generation_configs_that_lie(
    stored: dict[str, Any], message: str, rows: ModuleType, table: ModuleType
) -> None:
    config, names = rows.metadata("whisper")
    tensors = {n: rl.zeros(*shape) for n, shape in names.items()}
    files = {"config.json": config, "generation_config.json": stored}
    with pytest.raises(rl.FormatError, match=message):
        rl.models.assemble({n: json.dumps(v).encode() for n, v in files.items()}, tensors)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("feature_size", 81),
        ("hop_length", 320),
        ("n_fft", 512),
        ("chunk_length", 15),
        ("sampling_rate", 8000),
        ("padding_value", 0.5),
        ("padding_side", "left"),
        ("dither", 0.1),
        ("feature_extractor_type", "Wav2Vec2FeatureExtractor"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_settings_that_would_change_features_are_named(
    key: str, value: Any, nested: bool, rows: ModuleType
) -> None:
    config, names = rows.metadata("whisper")
    tensors = {n: rl.zeros(*shape) for n, shape in names.items()}
    told = {"feature_size": config["num_mel_bins"], "do_normalize": True, "n_samples": 3}
    for given in (told, {**told, key: value}):
        # processor_config.json precedes
        files = {"config.json": config, "preprocessor_config.json": {} if nested else given}
        if nested:
            files["processor_config.json"] = {"feature_extractor": given}
        raw = {n: json.dumps(v).encode() for n, v in files.items()}
        if given is told:
            rl.models.assemble(raw, tensors)
        else:
            with pytest.raises(rl.FormatError, match=f"processor_config.json: {key} .* is not sup"):
                rl.models.assemble(raw, tensors)


# --- files of other tools -------------------------------------------------------------------------


def weights(table: ModuleType) -> dict[str, Array]:
    """A model of one layer each under Hugging Face's names, float16's numbers."""
    vocab = len(TEXT) + len(special_tokens(51864))
    shapes: dict[str, tuple[int, ...]] = {
        "model.decoder.embed_tokens.weight": (vocab, WIDTH),
        "model.encoder.conv1.weight": (WIDTH, MELS, 3),
        "model.encoder.conv1.bias": (WIDTH,),
        "model.encoder.conv2.weight": (WIDTH, WIDTH, 3),
        "model.encoder.conv2.bias": (WIDTH,),
    }
    for stack, rows in (("encoder", FRAMES), ("decoder", CONTEXT)):
        base = f"model.{stack}"
        shapes[f"{base}.embed_positions.weight"] = rows, WIDTH
        for kind in ("weight", "bias"):
            shapes[f"{base}.layer_norm.{kind}"] = (WIDTH,)
        layer = f"{base}.layers.0"
        parts = ["self_attn", *(["encoder_attn"] if stack == "decoder" else [])]
        for part in parts:
            for name in "qkv":
                shapes[f"{layer}.{part}.{name}_proj.weight"] = WIDTH, WIDTH
            shapes[f"{layer}.{part}.out_proj.weight"] = WIDTH, WIDTH
            for name in ("q_proj", "v_proj", "out_proj"):
                shapes[f"{layer}.{part}.{name}.bias"] = (WIDTH,)
        for name in (*(f"{p}_layer_norm" for p in parts), "final_layer_norm"):
            shapes[f"{layer}.{name}.weight"] = shapes[f"{layer}.{name}.bias"] = (WIDTH,)
        for i, (out, into) in enumerate(((INNER, WIDTH), (WIDTH, INNER)), 1):
            shapes |= {f"{layer}.fc{i}.weight": (out, into), f"{layer}.fc{i}.bias": (out,)}
    return {
        n: table.values_of(n, s).astype(np.float16).astype(np.float32) for n, s in shapes.items()
    }


def config(w: dict[str, Array]) -> dict[str, Any]:
    sizes = {
        f"{s}_{k}": v
        for s in ("encoder", "decoder")
        for k, v in (("layers", 1), ("attention_heads", HEADS), ("ffn_dim", INNER))
    }
    return {
        "model_type": "whisper",
        "vocab_size": len(w["model.decoder.embed_tokens.weight"]),
        "d_model": WIDTH,
        "num_mel_bins": MELS,
        "max_source_positions": FRAMES,
        "max_target_positions": CONTEXT,
        **sizes,
    }


def assembled(w: dict[str, Array]) -> Any:
    tensors = {n: rl.tensor(x) for n, x in w.items()}
    return rl.models.assemble({"config.json": json.dumps(config(w)).encode()}, tensors)


def features_and_ids() -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    features = rng.normal(size=(1, MELS, 2 * FRAMES)).astype(np.float32)
    return features, rng.integers(0, 100, (1, 5))


def same(m: Any, w: dict[str, Array], most: float = 1e-5) -> None:
    features, ids = features_and_ids()
    with rl.no_grad():
        found, wanted = (x(rl.tensor(features), rl.tensor(ids)).numpy() for x in (m, assembled(w)))
    assert np.abs(found - wanted).max() <= most * np.abs(wanted).max()


def ctranslate2(w: dict[str, Array], *, int8: bool = False) -> bytes:
    """As CTranslate2's converter writes it; with int8 the matrices of `w` are rounded so."""
    rows: dict[str, Array] = {}
    for stack, of in (("encoder", "model.encoder"), ("decoder", "model.decoder")):
        rows[f"{stack}/num_heads"] = np.int16(HEADS)  # type: ignore[assignment]
        rows[f"{stack}/pre_norm"] = np.int8(1)  # type: ignore[assignment]
        rows[f"{stack}/position_encodings/encodings"] = w[f"{of}.embed_positions.weight"]
        norms = {"layer_norm": "layer_norm", "layer_0/ffn/layer_norm": "layers.0.final_layer_norm"}
        base = f"{of}.layers.0."
        for part, own in (("self_attention", "self_attn"), ("attention", "encoder_attn")):
            if f"{base}{own}.q_proj.weight" not in w:
                continue
            norms[f"layer_0/{part}/layer_norm"] = f"layers.0.{own}_layer_norm"
            groups = ["qkv"] if own == "self_attn" else ["q", "kv"]
            for i, names in enumerate((*groups, ("out",))):
                to, parts = (
                    f"{stack}/layer_0/{part}/linear_{i}",
                    [f"{base}{own}.{n}_proj" for n in names],
                )
                rows[f"{to}/weight"] = np.concatenate([w[f"{p}.weight"] for p in parts])
                none = np.zeros(WIDTH, np.float32)
                rows[f"{to}/bias"] = np.concatenate([w.get(f"{p}.bias", none) for p in parts])
        for theirs, ours in norms.items():
            rows[f"{stack}/{theirs}/gamma"] = w[f"{of}.{ours}.weight"]
            rows[f"{stack}/{theirs}/beta"] = w[f"{of}.{ours}.bias"]
        for i in (1, 2):
            for kind in ("weight", "bias"):
                rows[f"{stack}/layer_0/ffn/linear_{i - 1}/{kind}"] = w[f"{base}fc{i}.{kind}"]
                if stack == "encoder":
                    rows[f"encoder/conv{i}/{kind}"] = w[f"{of}.conv{i}.{kind}"]
    rows["decoder/embeddings/weight"] = w["model.decoder.embed_tokens.weight"]
    stored: list[tuple[str, Array, int]] = []
    for name, x in rows.items():
        if int8 and x.ndim == 2 and "encodings" not in name:
            scale = (127 / np.abs(x).max(1)).astype(np.float32)
            stored += [
                (name, np.round(x * scale[:, None]).astype(np.int8), 1),
                (name + "_scale", scale, 0),
            ]
        else:
            number = {"int16": 2, "int8": 1}.get(x.dtype.name, 4)
            stored.append((name, x.astype(np.float16) if number == 4 else x, number))
    out = struct.pack("<IH", 6, 12) + b"WhisperSpec\0" + struct.pack("<2I", 3, len(stored))
    for name, x, number in stored:
        out += struct.pack("<H", len(name) + 1) + name.encode() + b"\0" + bytes([x.ndim])
        out += (
            struct.pack(f"<{x.ndim}I", *x.shape)
            + struct.pack("<BI", number, x.nbytes)
            + x.tobytes()
        )
    out += struct.pack("<I", 1)
    for name in ("decoder/projection/weight", "decoder/embeddings/weight"):
        out += struct.pack("<H", len(name) + 1) + name.encode() + b"\0"
    return out


@pytest.mark.native
@pytest.mark.parametrize("int8", [False, True])
def test_ctranslate2s_folder(int8: bool, tmp_path: Path, table: ModuleType) -> None:
    w = weights(table)
    (tmp_path / "model.bin").write_bytes(ctranslate2(w, int8=int8))
    stored = {
        "alignment_heads": [[0, 1]],
        "suppress_ids": [3],
        "suppress_ids_begin": [4, 5],
        "lang_ids": [7],
    }
    (tmp_path / "config.json").write_text(json.dumps(stored))
    m = rl.models.load(tmp_path)
    same(m, w, 0.05 if int8 else 1e-5)
    assert m.tokens.alignment_heads == ((0, 1),)
    assert (m.tokens.suppress, m.tokens.begin_suppress) == ((3,), (4, 5))
    kinds = {p.dtype.name for p in m.parameters()}
    assert kinds == ({"q8_0", "float16", "float32"} if int8 else {"float16", "float32"})
    if not int8:  # and back, in the hub's layout
        m.save_pretrained(tmp_path / "saved")
        again = rl.models.load(tmp_path / "saved")
        same(again, w)
        assert again.tokens == m.tokens


def ggml(w: dict[str, Array], kind: str = "float16") -> bytes:
    """As whisper.cpp's converter and its quantize write it."""
    names = {"self_attn.": "attn.", "encoder_attn.": "cross_attn.", "q_proj": "query",
             "k_proj": "key", "v_proj": "value", "out_proj": "out", "fc1": "mlp.0", "fc2": "mlp.2",
             "self_attn_layer_norm": "attn_ln", "encoder_attn_layer_norm": "cross_attn_ln",
             "final_layer_norm": "mlp_ln", "layers.0": "blocks.0",
             "embed_tokens": "token_embedding"}  # fmt: skip
    sizes = [len(w["model.decoder.embed_tokens.weight"]), FRAMES, WIDTH, HEADS, 1, CONTEXT, WIDTH,
             HEADS, 1, MELS]  # fmt: skip
    blocks = kind.startswith("q")
    number = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "float32": 0, "float16": 1}[
        kind
    ]
    out = b"lmgg" + struct.pack("<11i", *sizes, 2002 if blocks else 1)
    out += struct.pack("<2i", MELS, 4) + bytes(4 * MELS * 4) + struct.pack("<i", len(TEXT))
    out += b"".join(struct.pack("<i", len(t)) + t.encode() for t in TEXT)
    for name, x in w.items():
        stored = name.removeprefix("model.")
        for ours, theirs in names.items():
            stored = stored.replace(ours, theirs)
        stored = stored.replace("encoder.layer_norm", "encoder.ln_post")
        stored = stored.replace("decoder.layer_norm", "decoder.ln")
        if "embed_positions" in stored:
            stored = stored.replace("embed_positions.weight", "positional_embedding")
        matrix = x.ndim == 2 and "positional" not in stored
        shape = (WIDTH, 1) if "conv" in stored and x.ndim == 1 else x.shape
        if matrix and blocks:
            typed, data = number, quantized(rl.tensor(x), as_dtype(kind)).raw_bytes()
        else:
            typed = 1 if (matrix or x.ndim == 3) and kind != "float32" else 0
            data = x.astype(np.float16 if typed else np.float32).tobytes()
        out += struct.pack("<3i", len(shape), len(stored), typed)
        out += struct.pack(f"<{len(shape)}i", *shape[::-1]) + stored.encode() + bytes(data)
    return out


@pytest.mark.native
@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("float32", 1e-5),
        ("float16", 1e-5),
        ("q8_0", 0.05),
        ("q5_0", 0.3),
        ("q5_1", 0.3),
        ("q4_0", 0.5),
        ("q4_1", 0.5),
    ],
)
def test_whisper_cpps_files(kind: str, most: float, tmp_path: Path, table: ModuleType) -> None:
    w = weights(table)
    (tmp_path / "ggml-odd.bin").write_bytes(ggml(w, kind))
    m = rl.models.load(tmp_path / "ggml-odd.bin")
    same(m, w, most)
    assert kind in {p.dtype.name for p in m.parameters()}
    start = len(TEXT) + 1
    assert m.tokens.prompt() == [start] and not m.tokens.multilingual
    assert m.tokens.timestamp_begin == start + 106
    assert m.tokenizer is not None
    assert m.tokenizer.encode("23", add_special_tokens=False).ids == [17, 18]
    assert m.tokenizer.decode([17, 18, start]) == "23"


@pytest.mark.native
def test_openais_checkpoints(
    tmp_path: Path, rows: ModuleType, table: ModuleType, openai: ModuleType
) -> None:
    m = model(rows, table)
    held = openai.held(m)
    rl.save(held, tmp_path / "tiny.pt")
    found = rl.models.load(tmp_path / "tiny.pt")
    features, ids = inputs(m, table)
    with rl.no_grad():
        logits = found(features, rl.tensor(ids)).numpy()
    np.testing.assert_allclose(logits, rows.golden("whisper")[0], **CLOSE)
    assert found.config.decoder_attention_heads == m.config.decoder_attention_heads
    # A page reads the head of the file by ranges.
    stored = read_storages(BytesSource(bytearray((tmp_path / "tiny.pt").read_bytes()), "tiny.pt"))
    assert stored is not None and stored.numbers["dims.n_mels"] == m.mels

    del held["dims"]["n_audio_head"]
    rl.save(held, tmp_path / "tiny.pt")
    with pytest.raises(rl.FormatError, match="its dims lack n_audio_head"):
        rl.models.load(tmp_path / "tiny.pt")


@pytest.mark.native
def test_openais_ranks_are_the_vocabulary(
    tmp_path: Path, table: ModuleType, openai: ModuleType
) -> None:
    rl.save(openai.held(assembled(weights(table))), tmp_path / "tiny.en.pt")
    ranks = [base64.b64encode(t.encode()) + b" %d\n" % i for i, t in enumerate(TEXT)]
    (tmp_path / "gpt2.tiktoken").write_bytes(b"".join(ranks))
    m = rl.models.load(tmp_path / "tiny.en.pt")
    start = len(TEXT) + 1
    assert m.tokens.prompt() == [start] and m.tokens.timestamp_begin == start + 106
    assert m.tokenizer is not None
    assert m.tokenizer.encode("23", add_special_tokens=False).ids == [17, 18]
    (tmp_path / "gpt2.tiktoken").write_bytes(ranks[0] + ranks[0])
    with pytest.raises(rl.FormatError, match="its ranks are not those from 0 to 1"):
        rl.models.load(tmp_path / "tiny.en.pt")


@pytest.mark.parametrize(
    ("layers", "heads", "vocab", "first", "count"),
    [
        (4, 6, 51864, (1, 0), 8),
        (6, 8, 51865, (3, 1), 8),
        (32, 20, 51865, (10, 12), 23),
        (32, 20, 51866, (7, 0), 10),
        (4, 20, 51866, (2, 4), 6),
        (4, 6, 100, (2, 0), 12),
    ],
)
def test_published_sizes_have_their_alignment_heads(
    layers: int, heads: int, vocab: int, first: tuple[int, int], count: int
) -> None:
    found = stored_tokens({}, None, vocab, layers, heads).alignment_heads
    assert found[0] == first and len(found) == count
    assert all(i < layers and h < heads for i, h in found)


def put(at: int, content: bytes) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:at] + content + raw[at + len(content) :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (put(0, b"\5"), "version 5"),
        (put(22, b"\xff" * 4), "too many"),
        (put(17, b"x"), "has no end"),
        (lambda raw: raw[:-3], "past the end"),
        (lambda raw: raw.replace(b"num_heads\0\0", b"num_heads\0\xff"), "255 dims"),
        (lambda raw: raw.replace(b"decoder/num_heads", b"encoder/num_heads"), "occurs twice"),
        (lambda raw: raw.replace(b"num_heads\0\0\2", b"num_heads\0\0\x09"), "type 9"),
        (lambda raw: raw[:-60] + raw[-60:].replace(b"embeddings", b"embeddingX"), "no variable"),
    ],
)
def test_damaged_ctranslate2(
    damage: Callable[[bytes], bytes], message: str, table: ModuleType
) -> None:
    raw = ctranslate2(weights(table))
    with pytest.raises(rl.FormatError, match=message):
        read_ctranslate2(BytesSource(bytearray(damage(raw)), "model.bin"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (put(40, b"\7"), "mel filters"),
        (put(28, b"\7"), "no Whisper model"),
        (put(56 + 4 * MELS * 4, b"\xff\xff\xff\xff"), "tokens of"),
        (lambda raw: raw[:-1], "not fit"),
        (lambda raw: raw[:60], "mel filters"),
        (lambda raw: raw.replace(b"blocks.0.mlp_ln.bias", b"blocks.0.mlp.2.bias\0"[:20]), None),
    ],
)
def test_damaged_ggml(
    damage: Callable[[bytes], bytes], message: str | None, table: ModuleType
) -> None:
    raw = damage(ggml(weights(table)))
    source = BytesSource(bytearray(raw), "ggml.bin")
    if message is None:
        tensors = rl.load(source)
        with pytest.raises(rl.LoadError):
            rl.models.assemble({}, tensors)
        return
    with pytest.raises(rl.FormatError, match=message):
        read_whisper_ggml(source)

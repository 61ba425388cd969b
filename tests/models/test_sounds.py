"""Every family of sound of the table: features, logits and codes are transformers'."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.text.tokenizer import Encoding
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.families import families
from rushlight.models.speech.composing import compose
from rushlight.models.tasks.pipeline import parts

HERE = Path(__file__).parent
DATA = HERE / "data" / "sounds"
_spec = importlib.util.spec_from_file_location("sounds", HERE / "sounds.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)


def close(value: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """Errors are measured by the largest value."""
    value, expected = (v.numpy() if isinstance(v, rl.Tensor) else v for v in (value, expected))
    assert value.shape == expected.shape
    largest = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(value / largest, expected / largest, rtol=0, atol=tolerance)


def model(row: str, device: str = "cpu", **changes: Any) -> Any:
    metadata = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    config, names = json.loads(metadata["config"]) | changes, json.loads(metadata["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    files = {"config.json": json.dumps(config).encode()}
    if "extractor" in metadata:
        files["preprocessor_config.json"] = metadata["extractor"].encode()
    return rl.models.assemble(files, tensors, device=device)


def golden(row: str) -> dict[str, Any]:
    return {n: t.numpy() for n, t in load_safetensors(DATA / f"{row}.safetensors").items()}


def result_of(m: Any, row: str, expected: dict[str, Any]) -> Any:
    """What a row's golden "out" is: logits of its inputs, or the sound of its codes."""
    ids = table.ids_of()
    if row == "ast":
        given = [expected["features"]]
    elif row.startswith("clap"):
        given = [ids, expected["features"], expected["longer"], ids != 1]
    elif row == "pocket":
        return m.decode(rl.tensor(expected["latents"], device=m.device))
    elif row == "melody":
        heard, seen = table.chroma_of(3, 5), ids != 1
        states = m.read(*(rl.tensor(a, device=m.device) for a in (ids, seen, heard)))
        codes = rl.tensor(table.codes_of(3, 4, 5, 32), device=m.device)
        return m.step(codes, m.remembered(states))
    elif row == "musicgen":
        given = [ids, table.codes_of(3, 4, 5, 32), ids != 1]
    elif row == "encodec-chunks":
        sound = rl.tensor(table.sound_of(0.533, 8000, 2)[None], device=m.device)
        return m.decode_chunks(m.encode_chunks(sound, m.codebooks))
    else:
        codes = expected["codes"] if "codes" in expected else expected["codes:2"][0]
        return m.decode(rl.tensor(codes.astype(np.int64), device=m.device))
    return m(*(rl.tensor(a, device=m.device) for a in given))


def test_every_family_has_a_row() -> None:
    """Those with real weights are in test_speaker_verification.py and test_pitch_estimation.py."""
    room = "rushlight.models.families.sound."
    modules = {kind: m for kind, m in families().items() if m.startswith(room)}
    configs = [open_tables(DATA / f"{row}.safetensors")[0][1].metadata for row in table.ROWS]
    rows = {json.loads(found["config"])["model_type"] for found in configs}
    others = {f"{room}{name}" for name in ("crepe", "resemblyzer")}
    others.add(f"{room}snac")  # whose config.json names no model_type
    assert {m for kind, m in modules.items() if kind in rows} | others == set(modules.values())
    sizes = {path.stem: path.stat().st_size for path in DATA.glob("*.safetensors")}
    assert set(sizes) == {*table.ROWS, "snac"} and max(sizes.values()) <= 50 << 10


def test_classes_of_a_spectrogram(device: str) -> None:
    m, expected = model("ast", device), golden("ast")
    sounds = [table.sound_of(s, 16000)[0] for s in (0.21, 0.6)]
    given = m.inputs_of(sounds)
    close(given["features"], expected["features"])
    with rl.no_grad():
        close(m(**given), expected["out"], 1e-4 if device == "cpu" else 1e-3)
    (first, *_) = rl.pipeline("audio-classification", m)(sounds[0], top_k=2)
    assert first["label"] == m.labels[int(expected["out"][0].argmax())]
    with pytest.raises(
        ValueError, match=r"features are \(1, 5, 16\); they must be \(batch, 30, 16"
    ):
        m(rl.zeros(1, 5, 16, device=device))


@pytest.mark.parametrize("name", ["clap", "clap-fused"])
def test_sounds_and_texts(name: str, device: str) -> None:
    m, expected = model(name, device), golden(name)
    seconds = (0.4, 1.7 if name == "clap-fused" else 1.0)
    given = m.inputs_of([table.sound_of(s, 16000)[0] for s in seconds])
    values, wanted = given["features"].numpy(), expected["features"]
    close(values[0], wanted[0])
    close(values[1, :1], wanted[1, :1])  # the pieces of a longer one are drawn there
    assert given["longer"].numpy().tolist() == [bool(n) for n in expected["longer"]]
    ids = table.ids_of()
    inputs = [rl.tensor(a, device=device) for a in (ids, wanted, expected["longer"], ids != 1)]
    tolerance = 1e-4 if device == "cpu" else 1e-3
    with rl.no_grad():
        close(m(*inputs), expected["out"], tolerance)
        texts = m.encode_text(inputs[0], inputs[3])
        close(rl.nn.functional.normalize(texts, dim=-1), expected["texts"], tolerance)
    with pytest.raises(ValueError, match="features are"):
        m.encode_audio(rl.zeros(1, 2, 5, 16, device=device))


def test_encodec_codes_and_sound(device: str) -> None:
    m, expected = model("encodec", device), golden("encodec")
    sound = rl.tensor(table.sound_of(0.533, 8000)[None], device=device)
    for i, bandwidth in enumerate((1.0, 2.0, 4.0)):
        if device == "cpu" or i == 2:
            codes = m.encode(sound, bandwidth=bandwidth)
            assert codes.numpy().tolist() == expected[f"codes:{i}"][0].tolist()
    close(m.decode(codes), expected["out"], 1e-4 if device == "cpu" else 1e-3)
    assert m.encode(sound[0, 0, :90]).shape == (1, 1, 3)  # the smallest bandwidth
    with pytest.raises(ValueError, match="bandwidth is 3; it must be one of 1, 2, 4"):
        m.encode(sound, bandwidth=3)
    with pytest.raises(ValueError, match=r"audio is \(1, 2, 9\); it must be \(batch, 1, n\)"):
        m.encode(rl.zeros(1, 2, 9, device=device))


def test_encodec_in_chunks_with_their_loudness() -> None:
    m, expected = model("encodec-chunks"), golden("encodec-chunks")
    sound = rl.tensor(table.sound_of(0.533, 8000, 2)[None])
    for i, bandwidth in enumerate((1.0, 2.0, 4.0)):
        codes = m.encode(sound, bandwidth=bandwidth)
        assert codes.numpy().tolist() == expected[f"codes:{i}"].tolist()
    chunks = m.encode_chunks(sound, bandwidth=4.0)
    close(m.decode_chunks(chunks), expected["out"])
    loudness = rl.stack([loud.reshape(-1) for _, loud in chunks])
    filled = codes.shape[-1] - chunks[-1][0].shape[-1]
    close(m.decode(codes, loudness, filled), expected["out"])
    close(m(sound, m.codebooks), expected["out"][..., : sound.shape[-1]])


def test_a_code_a_frame_and_sound_by_a_spectrogram() -> None:
    m, expected = model("wavtokenizer"), golden("wavtokenizer")
    sound = rl.tensor(table.sound_of(0.533, m.rate))
    assert m.encode(sound).numpy().tolist() == expected["codes"].tolist()
    close(m.decode(rl.tensor(expected["codes"].astype(np.int64))), expected["out"])
    assert m.bandwidths() == {round(8000 / 24 * 5 / 1000, 4): 1}
    coded = rl.pipeline("audio-to-audio", m)({"samples": sound.numpy()[0], "rate": m.rate})
    assert coded["audio"].shape == (4264,) and coded["codebooks"] == 1
    with pytest.raises(rl.FormatError, match="codebook_dim 9 must be hidden_size 12"):
        model("wavtokenizer", codebook_dim=9)


@pytest.mark.parametrize("name", ["dac", "mimi"])
def test_codes_and_sound(name: str, device: str) -> None:
    m, expected = model(name, device), golden(name)
    codes = m.encode(rl.tensor(table.sound_of(0.533, m.rate), device=device))
    assert codes.numpy().tolist() == expected["codes"].tolist()
    close(m.decode(codes), expected["out"], 1e-4 if device == "cpu" else 1e-3)
    with pytest.raises(ValueError, match=f"codebooks is 99; there are 1 to {m.codebooks}"):
        m.encode(rl.zeros(1, 1, 900, device=device), 99)


def test_frames_of_numbers_and_sound() -> None:
    m, expected = model("pocket"), golden("pocket")
    sound = rl.tensor(table.sound_of(0.533, m.rate))
    close(m.encode(sound), expected["latents"])
    close(m.decode(rl.tensor(expected["latents"])), expected["out"])
    parts = in_parts(m.encoding(), sound[None], (700, 3, 1500))
    close(parts, expected["latents"])
    with pytest.raises(
        ValueError, match=r"frames are int64 of shape \(1, 6, 4\); they must be num"
    ):
        m.decode(rl.zeros(1, 6, 4).long())


def in_parts(coding: Any, x: Any, sizes: tuple[int, ...]) -> Any:
    """What a coding makes of x in parts of these sizes, and of the rest."""
    parts, start = [], 0
    for size in sizes:
        parts.append(coding.push(x[..., start : start + size]))
        start += size
    parts.append(coding.push(x[..., start:], last=True))
    assert sum(part.shape[-1] > 0 for part in parts) > 1
    return rl.cat([part for part in parts if part.shape[-1]], -1)


@pytest.mark.parametrize("name", ["encodec", "dac", "mimi"])
def test_parts_of_sound_give_the_codes_of_the_whole(name: str) -> None:
    m = model(name)
    sound = rl.tensor(table.sound_of(1.333, m.rate)[None])
    codes = m.encode(sound, m.codebooks)
    sizes = (700, 3, 1500, 4000)
    assert (in_parts(m.encoding(m.codebooks), sound, sizes).numpy() == codes.numpy()).all()
    close(in_parts(m.decoding(), codes, (20, 1, 90)), m.decode(codes))
    close(m(sound, m.codebooks), m.decode(codes)[..., : sound.shape[-1]])


@pytest.mark.parametrize("name", ["dac", "encodec-chunks"])
def test_a_recording_goes_through_a_codec(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rushlight.models.tasks.audio_to_audio.SECONDS", 0.5)
    m = model(name)
    pipe, rate = rl.pipeline("audio-to-audio", m), m.rate
    sound = table.sound_of(1.3, rate, m.channels)
    result = pipe({"samples": sound, "rate": rate})
    with rl.no_grad():
        whole = m(rl.tensor(sound[None]), m.codebooks).numpy()[0]
    close(np.atleast_2d(result["audio"])[:, : whole.shape[1]], whole)
    facts = {n: v for n, v in result.items() if n != "audio"}
    assert facts == {
        "sampling_rate": rate,
        "channels": m.channels,
        "duration": pytest.approx(1.3, abs=1e-3),
        "bandwidth": pytest.approx(m.bandwidth(m.codebooks), abs=1e-3),
        "codebooks": m.codebooks,
    }
    rl.audio.save(tmp_path / "a.wav", sound, 2 * rate)  # faster, so resampled
    again = pipe(tmp_path / "a.wav", codebooks=1)
    assert again["audio"].shape[-1] == -(-sound.shape[1] // 2) and again["codebooks"] == 1
    with pytest.raises(ValueError, match="bandwidth is 7; it must be one of"):
        pipe(sound[0], bandwidth=7.0)


def finished(steps: Any) -> Any:
    """The result of a run."""
    steps = parts(steps)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_music_of_a_text(device: str) -> None:
    m, expected = model("musicgen", device), golden("musicgen")
    tolerance = 1e-4 if device == "cpu" else 1e-3
    ids = table.ids_of()
    codes = table.codes_of(3, 4, 5, 32)
    inputs = [rl.tensor(a, device=device) for a in (ids, codes, ids != 1)]
    with rl.no_grad():
        close(m(*inputs), expected["out"], tolerance)
        held = m.remembered(m.read(inputs[0], inputs[2]))
        first = m.step(inputs[1][:, :, :3], held, inputs[2])
        rest = m.step(inputs[1][:, :, 3:], held, inputs[2])
        close(rl.cat([first, rest], 2), expected["out"], tolerance)
    options = {"guidance_scale": 3.0, "do_sample": False, "seed": 0}
    text, seen = (rl.tensor(a[:2], device=device) for a in (ids, ids != 1))
    composed = finished(compose(m, text, seen, 10, options))
    assert composed.shape == (2, 4, 10)
    close(m.sound(rl.tensor(composed, device=device)), expected["sound"], tolerance)
    drawn = options | {"guidance_scale": 1.0, "do_sample": True, "temperature": 1.0, "top_k": 1}
    likeliest = options | {"guidance_scale": 1.0}
    runs = [finished(compose(m, text, seen, 2, chosen)) for chosen in (drawn, likeliest)]
    assert (runs[0] == runs[1]).all()
    with pytest.raises(ValueError, match=r"codes are \(1, 3, 2\); they must be \(batch, 4, n\)"):
        m.step(rl.zeros(1, 3, 2, device=device).long(), held)


def test_music_of_a_melody_and_a_text() -> None:
    m, expected, ids = model("melody"), golden("melody"), table.ids_of()
    mask = rl.tensor(ids != 1)
    with rl.no_grad():
        close(result_of(m, "melody", expected), expected["out"])
    options = {"guidance_scale": 3.0, "do_sample": False, "seed": 0}
    composed = finished(compose(m, rl.tensor(ids[:2]), mask[:2], 10, options))
    close(m.sound(rl.tensor(composed)), expected["sound"])
    with pytest.raises(ValueError, match=r"chroma is \(3, 2, 4\); it must be \(3, frames, 5\)"):
        m.read(rl.tensor(ids), mask, rl.zeros(3, 2, 4))


def test_codes_of_several_rates(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m, expected = model("snac", device), golden("snac")
    sound = rl.tensor(table.sound_of(0.533, m.rate), device=device)
    codes = m.encode(sound)
    assert [row.numpy().tolist() for row in codes] == [
        expected[f"codes:{i}"].tolist() for i in range(3)
    ]
    out = m.decode(codes, lambda n: np.cos(np.arange(n)))
    close(out, expected["out"], 1e-4 if device == "cpu" else 1e-3)
    if device == "cpu":
        whole = m.decode(codes, np.zeros)
        monkeypatch.setattr("rushlight.models.layers.sound.snac._SECONDS", 0.1)
        parts = m.encode(sound)
        assert all((a.numpy() == b.numpy()).all() for a, b in zip(parts, codes, strict=True))
        close(m.decode(codes, np.zeros), whole)
        monkeypatch.setattr("rushlight.models.layers.sound.snac.normal", lambda *a: np.zeros(a[2]))
        longer = rl.tensor(table.sound_of(1.0, m.rate))
        again = in_parts(m.round_trip(3), longer[None], (6000,))
        close(again, m.decode(m.encode(longer)))
    with pytest.raises(ValueError, match="codes are .* of which each has 4, 2, 1 frames"):
        m.decode([codes[0], codes[2]])
    with pytest.raises(rl.FormatError, match="attn_window_size 32 is not supported"):
        model("snac", attn_window_size=32)


class _Words:
    """A tokenizer whose tokens are words' lengths."""

    pad_id = 1

    def encode_batch(self, texts: list[str], max_length: int | None = None) -> list[Any]:
        rows = [[3 + len(word) % 20 for word in text.split()][:max_length] for text in texts]
        return [Encoding(ids, [], []) for ids in rows]


def test_labels_and_music_of_texts() -> None:
    m = model("clap")
    m.tokenizer = _Words()
    choose, sound = rl.pipeline("zero-shot-audio-classification", m), table.sound_of(0.3, 16000)[0]
    scores = choose(sound, candidate_labels="bell, rainfall")
    assert {row["label"] for row in scores} == {"bell", "rainfall"}
    assert sum(row["score"] for row in scores) == pytest.approx(1)
    m = model("musicgen")
    m.tokenizer = _Words()
    result = rl.pipeline("text-to-audio", m)("a slow waltz", seconds=0.05)
    assert result["audio"].shape == (400,) and result["sampling_rate"] == 8000
    with pytest.raises(ValueError, match="the text is empty"):
        rl.pipeline("text-to-audio", m)(" ")

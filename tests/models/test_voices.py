"""Models that speak: transformers' samples, names, saved folders, and errors in words."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.families import family_of

HERE = Path(__file__).parent
DATA = HERE / "data" / "voices"
spec = importlib.util.spec_from_file_location("rushlight_tests_voices", HERE / "voices.py")
assert spec is not None and spec.loader is not None
table: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)


def metadata(row: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """config.json, and the checkpoint's names and shapes."""
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    return json.loads(found["config"]), json.loads(found["names"])


def model(row: str, device: Any = "cpu", **changes: Any) -> Any:
    """The model of a row of the table."""
    config, names = metadata(row)
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    files = {"config.json": json.dumps(config | changes).encode()}
    return rl.models.assemble(files, tensors, device=device)


def spoken(m: Any, mask: Any = None) -> Any:
    """Samples of the table's texts, with its noise."""
    c, ids = m.config, table.ids_of(m.config.vocab_size)

    def noise(shape: tuple[int, ...], scale: float) -> Any:
        return rl.tensor(table.noise_of(shape) * np.float32(scale), device=m.device)

    first = noise((len(ids), 2, ids.shape[1]), c.noise_scale_duration)
    with rl.no_grad():
        out = m(
            rl.tensor(ids, device=m.device),
            None if mask is None else rl.tensor(mask, device=m.device),
            1 if c.num_speakers > 1 else None,
            noise=(first, lambda shape: noise(shape, c.noise_scale)),
        )
    return out.numpy()


@pytest.mark.parametrize("voice", [row for row in table.ROWS if row.startswith("vits")])
def test_vits_speaks_as_transformers_does(voice: str, device: Any) -> None:
    m, golden = model(voice, device), load_safetensors(DATA / f"{voice}.safetensors")
    assert m.tasks == ("text-to-speech",)
    close = 1e-4 if str(device) == "cpu" else 1e-3
    for out, name in ((spoken(m), "out"), (spoken(m, table.mask_of()), "padded")):
        wanted = golden[name].numpy()
        assert out.shape == wanted.shape
        np.testing.assert_allclose(out, wanted, rtol=0, atol=close * np.abs(wanted).max())


@pytest.mark.parametrize("voice", [row for row in table.ROWS if row.startswith("fastspeech")])
def test_fastspeech_speaks_as_transformers_does(voice: str, device: Any) -> None:
    m, golden = model(voice, device), load_safetensors(DATA / f"{voice}.safetensors")
    assert m.tasks == ("text-to-speech",)
    with rl.no_grad():
        out = m(rl.tensor(table.ids_of(17), device=m.device)).numpy()
    wanted = golden["out"].numpy()
    assert out.shape == wanted.shape
    close = 1e-4 if str(device) == "cpu" else 1e-3
    np.testing.assert_allclose(out, wanted, rtol=0, atol=close * np.abs(wanted).max())


def with_vocoder(row: str, device: Any = "cpu", **changes: Any) -> Any:
    """SpeechT5 of the table, with the table's HiFi-GAN."""
    config, names = metadata(row)
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    told = {"model_type": "hifigan", **table.HIFIGAN}
    maker = rl.models.families.family_of("hifigan", "model_type").build(told, ())
    for name, t in maker.state_dict().items():
        shape = tuple(t.shape)
        tensors[f"vocoder.{name}"] = rl.tensor(table.values_of(f"vocoder.{name}", shape))
    files = {"config.json": json.dumps(config | {"vocoder_config": told} | changes).encode()}
    letters = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"etaonihsrdlucm", ".", ","]
    model = {"type": "Unigram", "vocab": [[token, 0.0] for token in letters]}
    files["tokenizer.json"] = json.dumps({"model": model}).encode()
    return rl.models.assemble(files, tensors, device=device)


def drawn(layers: int) -> Any:
    """What SpeechT5 asks for at each step, of the table."""
    steps = iter(range(1000))

    def draw(shape: tuple[int, int, int]) -> Any:
        assert shape[:2] == (layers, 1)
        at = next(steps)
        rows = [table.drops_of(i, at + 1, shape[2])[-1:] for i in range(layers)]
        return np.stack(rows)

    return draw


def test_speecht5_speaks_as_transformers_does(device: Any) -> None:
    hold_speecht5("speecht5", device)


def test_speecht5_of_a_frame_a_step_speaks_as_transformers_does() -> None:
    hold_speecht5("speecht5-single", "cpu")


def hold_speecht5(voice: str, device: Any) -> None:
    """Compare spectrograms of given frames, and samples of a text, with the goldens."""
    from rushlight.models.layers.speech.voice import VoiceText

    m, golden = with_vocoder(voice, device), load_safetensors(DATA / f"{voice}.safetensors")
    assert m.tasks == ("text-to-speech",)
    close = 1e-4 if str(device) == "cpu" else 1e-3
    c = m.config
    layers, units = c.speech_decoder_prenet_layers, c.speech_decoder_prenet_units
    ids, frames = table.ids_of(c.vocab_size), table.frames_of(c.num_mel_bins)
    speaker = table.speaker_of(c.speaker_embedding_dim)
    with rl.no_grad():
        out = m(
            *(rl.tensor(x, device=m.device) for x in (ids, frames, np.stack([speaker] * 2))),
            rl.tensor(table.mask_of(), device=m.device),
            dropout_masks=m.dropped(
                lambda shape: np.stack([table.drops_of(i, 5, units) for i in range(layers)]), 5
            ),
        ).numpy()
        wanted = golden["out"].numpy()
        np.testing.assert_allclose(out, wanted, rtol=0, atol=close * np.abs(wanted).max())
        text = VoiceText(tuple(map(int, ids[0])), (), "")
        steps, sent = m.speak(text, {"speaker_embeddings": speaker}, drawn(layers)), None
        try:
            while True:
                sent = steps.send(sent).wait()
        except StopIteration as finished:
            samples, lengths = finished.value
    wanted = golden["samples"].numpy()
    assert samples.shape == wanted.shape and lengths.sum() == len(samples) >= 12
    np.testing.assert_allclose(samples, wanted, rtol=0, atol=close * np.abs(wanted).max())


def test_speecht5_reads_letters_and_asks_who_speaks(tmp_path: Path) -> None:
    m = with_vocoder("speecht5")
    np.save(tmp_path / "who.npy", table.speaker_of(5)[None])
    pipe = rl.pipeline("text-to-speech", m, speaker_embeddings=str(tmp_path / "who.npy"))
    said = pipe("the moon. it is 1 hour, a")
    assert said["phonemes"] == ["the moon.", "it is one hour, a"]
    assert [w["word"] for w in said["words"]] == "the moon it is 1 hour a".split()
    assert said["sampling_rate"] == 16000 and len(list(pipe.stream("the moon. it is"))) == 2
    m.save_pretrained(tmp_path / "voice")
    again = rl.pipeline("text-to-speech", tmp_path / "voice")
    assert np.array_equal(
        again("the moon", speaker_embeddings=table.speaker_of(5))["audio"],
        pipe("the moon")["audio"],
    )
    for text, options, words in (
        ("the Moon", {}, "'M' at character 4 is none of the voice's letters"),
        ("...", {}, "no word to say"),
        ("the moon " * 9, {}, r"\(batch, 1 to 30\)"),
        ("moon", {"speaker_embeddings": [1.0, 2.0]}, "the voice takes 5 numbers"),
        ("moon", {"speaker_embeddings": "none.npy"}, "is no file of"),
        ("moon", {"speaker_embeddings": None}, "speaker_embeddings is missing"),
    ):
        with pytest.raises(ValueError, match=words):
            pipe(text, **options)


def test_kokoro_speaks_as_published(device: Any) -> None:
    m, golden = model("kokoro", device), load_safetensors(DATA / "kokoro.safetensors")
    ids = np.asarray([[0, 7, 30, 41, 1, 12, 55, 20, 3, 0]])
    wanted, frames = golden["out"].numpy(), golden["frames"].numpy()
    with rl.no_grad():
        style = m.style({"speaker_embeddings": "af_heart"}, 8)
        noise = table.noise_of((wanted.shape[1], 9))
        out = m(rl.tensor(ids, device=m.device), style, noise=noise).numpy()
        _, lasting = m.encode(rl.tensor(ids, device=m.device), style)
    assert np.array_equal(m.frames(lasting.numpy()[0], 1.0), frames)
    assert out.shape == wanted.shape
    close = 1e-4 if str(device) == "cpu" else 1e-3
    np.testing.assert_allclose(out, wanted, rtol=0, atol=close * np.abs(wanted).max())


def test_kokoro_is_read_from_its_files_and_speaks_texts(tmp_path: Path) -> None:
    config, names = metadata("kokoro")
    (tmp_path / "voices").mkdir()
    parts: dict[str, dict[str, Any]] = {}
    for name, shape in names.items():
        t = rl.tensor(table.values_of(name, tuple(shape)))
        part, _, rest = name.partition(".")
        if part == "voices":
            rl.save(t, tmp_path / "voices" / f"{rest}.pt")
        else:
            parts.setdefault(part, {})[f"module.{rest}"] = t
    rl.save(parts, tmp_path / "kokoro-v1_0.pth")
    (tmp_path / "lexicon.txt").write_text("hello HH AH0 L OW1\nlight L AY1 T\nthe DH AH0\n")
    del config["model_type"]  # as the published file has none
    (tmp_path / "config.json").write_text(json.dumps(config))
    m = rl.models.load(tmp_path)
    assert m.voice_names == ["af_heart", "bm_other"] and m.speakers == 2
    pipe = rl.pipeline("text-to-speech", m, phonemizer="lexicon")
    said = pipe("Hello, light. The light!")
    assert said["phonemes"] == ["həlˈO, lˈIt.", "ðə lˈIt!"] and said["sampling_rate"] == 24000
    assert [w["word"] for w in said["words"]] == ["Hello", "light", "The", "light"]
    assert len(list(pipe.stream("Hello, light. The light!"))) == 2
    cut = pipe("Hello light, hello light, hello light, hello light.")  # of 40 ids at most
    assert len(cut["phonemes"]) == 2 and len(cut["words"]) == 8
    still: Any = {"noise_scale": 0.0}
    by_name = pipe("[[lˈIt]]", speaker_embeddings="bm_other", **still)["audio"]
    assert np.array_equal(pipe("[[lˈIt]]", speaker=1, **still)["audio"], by_name)
    by_file = pipe("[[lˈIt]]", speaker_embeddings=tmp_path / "voices" / "bm_other.pt", **still)
    assert np.array_equal(by_file["audio"], by_name)
    mean = pipe("[[lˈIt]]", speaker_embeddings="af_heart,bm_other", **still)["audio"]
    assert not np.array_equal(mean[:20], by_name[:20])
    assert len(pipe("light", speed=0.5)["audio"]) > len(pipe("light")["audio"])
    m.save_pretrained(tmp_path / "saved")
    again = rl.pipeline("text-to-speech", tmp_path / "saved", phonemizer="lexicon")
    assert np.array_equal(again("The light!")["audio"], pipe("The light!")["audio"])
    for text, options, words in (
        ("Привет", {}, "is of a script"),
        ("[[x☃]]", {}, "phoneme 'x'"),
        ("light", {"speaker": 2}, "speakers 0 to 1"),
        ("light", {"speaker_embeddings": "nobody"}, "it has af_heart, bm_other"),
        ("light", {"speaker_embeddings": [1.0] * 7}, "a voice has 10 numbers"),
        ("[[" + "a" * 39 + "]]", {}, "the voice takes 38 at a time"),
    ):
        with pytest.raises(ValueError, match=words):
            pipe(text, **options)


@pytest.mark.parametrize("voice", list(table.ROWS))
def test_keys_are_decided_and_goldens_are_small(voice: str) -> None:
    kind = metadata(voice)[0]["model_type"]
    assert not family_of(kind, "model_type").unread_keys(kind)
    assert (DATA / f"{voice}.safetensors").stat().st_size <= 30 << 10


def test_what_is_saved_speaks_the_same(tmp_path: Path) -> None:
    m = model("vits")
    m.save_pretrained(tmp_path / "voice")
    again = rl.models.load(tmp_path / "voice")
    assert np.array_equal(spoken(again), spoken(m))


def test_wrong_values_are_named() -> None:
    for changes, words in (
        ({"window_size": 0}, "window_size is 0"),
        ({"flow_size": 9}, "flow_size is 9"),
        ({"speaking_rate": 0.0}, "speaking_rate is 0"),
        ({"hidden_act": "wavy"}, "hidden_act"),
        ({"upsample_rates": [3]}, "do not fit"),
        ({"resblock_kernel_sizes": [2, 4]}, "must be odd"),
        ({"num_attention_heads": 5}, "not a multiple"),
    ):
        with pytest.raises(FormatError, match=words):
            model("vits", **changes)
    m = model("vits")
    ids = rl.tensor(table.ids_of(19))
    with pytest.raises(ValueError, match="speakers 0 to 2"):
        m(ids, speaker=3)
    with pytest.raises(ValueError, match=r"must be \(batch, n\)"):
        m(ids[0])

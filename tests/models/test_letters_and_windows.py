"""Transcription by CTC and by models without timestamps: letters, windows, options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.layers.speech.letters import Letters, stored_letters
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.speech.ctc import CTCTranscriber
from rushlight.models.speech.split_windows import windows
from rushlight.models.tasks.pipeline import parts
from rushlight.models.tasks.registry import find

TASK = "automatic-speech-recognition"
TOKENS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFGH"]
VOCAB = json.dumps({token: i for i, token in enumerate(TOKENS)}).encode()
BLANK, BETWEEN, A, B = 0, 4, 5, 6


def read(ids: list[int], letters: Letters) -> list[str]:
    return ["".join(x.text for x in word) for word in letters.read(ids, [0.0] * len(ids))]


def test_equal_neighbours_are_one_letter_and_blanks_part_them() -> None:
    letters = stored_letters({"vocab.json": VOCAB}, 13, None)
    assert letters is not None and letters.words
    assert read([A, A, 0, A, B, B, 4, 4, 0, 4, 1, B, 3, 2, 0], letters) == ["AAB", "B"]
    assert read([0, 4, 0], letters) == [] == read([], letters)
    [[first, second]] = letters.read([0, A, A, 0, B], [-1.0, -2.0, -3.0, -4.0, -5.0])
    assert (first.first, first.stop, first.logs) == (1, 3, (-2.0, -3.0))
    assert (second.first, second.stop) == (4, 5)


def test_files_say_what_letters_mean() -> None:
    said = {
        "pad_token": {"content": "H"},
        "word_delimiter_token": "C",
        "do_lower_case": True,
        "replace_word_delimiter_char": "-",
        "added_tokens_decoder": {"13": {"content": "XY"}, "99": {"content": "beyond"}},
    }
    files = {"vocab.json": VOCAB, "tokenizer_config.json": json.dumps(said).encode()}
    letters = stored_letters(files, 14, 0)
    assert letters is not None
    assert (letters.blank, letters.space, letters.lower) == (12, "-", True)
    assert read([A, 12, A, 7, B, 13, 4], letters) == ["aa", "bxy|"]
    assert stored_letters({}, 14, 0) is None


@pytest.mark.parametrize(
    ("vocab", "said", "error"),
    [
        ({"fra": {"a": 0}, "deu": {"a": 0}}, {}, "none of target_lang 'eng'; there are: "),
        ({"fra": {"a": 0}}, {"target_lang": "fry"}, "none of target_lang 'fry'; there are: fra"),
        ({"a": 0, "b": 0}, {}, "not an object of tokens and their ids"),
        ({"a": "0"}, {}, "not an object of tokens and their ids"),
        ([1], {}, "not an object of tokens and their ids"),
        ({"a": 0}, {"replace_word_delimiter_char": 3}, "replace_word_delimiter_char is 3"),
        ({"a": 0}, {"pad_token": "b"}, "the blank is 7; it must be one of 5 tokens"),
    ],
)
def test_a_vocabulary_that_is_wrong_is_named(vocab: Any, said: Any, error: str) -> None:
    files = {"vocab.json": vocab, "tokenizer_config.json": said}
    given = {name: json.dumps(value).encode() for name, value in files.items()}
    with pytest.raises(rl.FormatError, match=error):
        stored_letters(given, 5, 7 if "pad_token" in said else 0)


def test_windows_are_cut_where_it_is_quietest() -> None:
    samples = np.random.default_rng(0).normal(size=100 * RATE).astype(np.float32)
    for quiet in (27.0, 51.0):
        samples[int((quiet - 0.2) * RATE) : int((quiet + 0.2) * RATE)] *= 0.01
    found = windows(samples, 0, len(samples))
    np.testing.assert_allclose([end / RATE for _, end in found[:2]], [27.0, 51.0], atol=0.11)
    starts, ends = zip(*found, strict=True)
    assert (starts[0], ends[-1]) == (0, len(samples)) and starts[1:] == ends[:-1]
    assert all(20 * RATE <= b - a <= 30 * RATE for a, b in found[:-1])
    zeros = np.zeros(31 * RATE, np.float32)
    assert windows(zeros, 0, len(zeros))[0][1] == pytest.approx(26 * RATE, abs=RATE // 5)
    assert windows(samples, 5, 9 * RATE) == [(5, 9 * RATE)]
    assert windows(samples, 7, 7) == []


class Spoken:
    """A stand-in for a model: a sample of i / 16 says token i, 320 of them a frame."""

    step, least, head = 320, 400, True
    config = SimpleNamespace(model_type="spoken")

    def __init__(self, device: Any) -> None:
        self.device, self.lengths = device, list[int]()
        self.letters = stored_letters({"vocab.json": VOCAB}, 13, 0)

    def ready(self, samples: Any) -> Any:
        return np.concatenate([samples, np.zeros(max(0, 400 - len(samples)), np.float32)])[None]

    def __call__(self, samples: rl.Tensor) -> rl.Tensor:
        self.lengths.append(samples.shape[1])
        frames = samples[:, : samples.shape[1] // 320 * 320].reshape(1, -1, 320).mean(-1)
        ids = rl.arange(13, device=samples.device).float()
        return (frames.unsqueeze(-1) * 16 - ids).square() * -20


def options(**given: Any) -> Mapping[str, Any]:
    return find(TASK).checked(given)


def spoken(ids: list[tuple[int, int]]) -> Any:
    """Samples of pairs of a token and its number of frames."""
    each = np.concatenate([np.full(320 * n, i / 16, np.float32) for i, n in ids])
    # A blank is quiet but not of zeros alone, so that the window is heard.
    return np.where(each == 0, np.float32(1e-4), each)


def transcribed(model: Any, samples: Any, **given: Any) -> tuple[dict[str, Any], list[str]]:
    steps = parts(CTCTranscriber(model, options(**given)).run(samples))
    told = []
    while True:
        try:
            told.append(next(steps).text)
        except StopIteration as ended:
            return ended.value, told


def test_a_long_recording_has_its_words_where_they_are(device: str) -> None:
    model = Spoken(device)
    pause = [(BLANK, 150)]  # 3 s
    said = [(BLANK, 10), (A, 5), (B, 5), (BETWEEN, 5), (B, 9), (BETWEEN, 1), *pause]  # 3.7 s
    samples = spoken(said * 20)  # 74 s
    found, told = transcribed(model, samples, words=True)
    assert found["text"] == " ".join(["AB B"] * 20) and "".join(told).strip() == found["text"]
    assert found["duration"] == pytest.approx(74) and found["language"] is None
    assert len(model.lengths) == 3 and max(model.lengths) <= 34 * RATE
    for i, segment in enumerate(found["segments"]):
        at = 3.7 * i  # a window need not begin at a frame of the one before
        assert segment["start"] == pytest.approx(at + 0.2, abs=0.03)
        assert segment["end"] == pytest.approx(at + 0.68, abs=0.03)
        assert [w["word"] for w in segment["words"]] == [" AB", " B"]
        times = [(w["start"], w["end"]) for w in segment["words"]]
        np.testing.assert_allclose(times, [(at + 0.2, at + 0.4), (at + 0.5, at + 0.68)], atol=0.03)
        assert 0.9 < segment["probability"] <= 1 and segment["no_speech"] == 0
    plain, _ = transcribed(Spoken(device), samples[: 3 * RATE], clips=[[0.1, 0.45]])
    assert [(s["text"], s["words"]) for s in plain["segments"]] == [(" AB", [])]
    assert plain["segments"][0]["start"] == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("search", [{}, {"beam_width": 3}])
def test_words_that_reach_over_cuts_are_written_once(search: dict[str, Any]) -> None:
    """401 s without a pause: every word once, letters that a cut goes through too."""
    model, draw = Spoken("cpu"), np.random.default_rng(1)
    words, said = [], list[tuple[int, int]]()
    while sum(n for _, n in said) < 401 * 50:
        letters = [A + int(n) for n in draw.integers(0, 8, int(draw.integers(2, 7)))]
        letters = [n for i, n in enumerate(letters) if i == 0 or n != letters[i - 1]]
        words.append("".join(TOKENS[n] for n in letters))
        said += [(n, int(draw.integers(3, 40))) for n in letters] + [(BETWEEN, 1)]
    found, _ = transcribed(model, spoken(said), words=True, **search)
    assert found["text"].split() == words
    assert max(model.lengths) <= 34 * RATE and len(model.lengths) > 13
    starts = [w["start"] for s in found["segments"] for w in s["words"]]
    counts = np.cumsum([n for _, n in said])
    wanted = [0.0, *(counts[i] / 50 for i, (n, _) in enumerate(said[:-1]) if n == BETWEEN)]
    np.testing.assert_allclose(starts, wanted, atol=0.03)


def test_zeros_and_single_samples() -> None:
    model = Spoken("cpu")
    assert transcribed(model, np.zeros(RATE, np.float32))[0]["segments"] == []
    assert model.lengths == []  # silence is not heard
    assert transcribed(model, np.ones(1, np.float32))[0]["text"] == ""
    assert model.lengths == [400]


# --- wav2vec 2.0 --------------------------------------------------------------------------------


def wav2vec2(rows: ModuleType, table: ModuleType, device: str = "cpu", **files: Any) -> Any:
    """The row's model with a vocabulary; `files`: preprocessor= its settings, vocab= another."""
    config, names = rows.metadata(files.pop("row", "wav2vec2"))
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    given = {"config.json": json.dumps(config).encode(), "vocab.json": VOCAB}
    given |= {f"{name}_config.json": json.dumps(said).encode() for name, said in files.items()}
    return rl.models.assemble(given, tensors, device=device)


@pytest.mark.parametrize("normalize", [True, False])
def test_a_tiny_model_writes_its_likeliest_letters(
    device: str, rows: ModuleType, table: ModuleType, normalize: bool
) -> None:
    model = wav2vec2(rows, table, device, preprocessor={"do_normalize": normalize})
    # Loud and faint parts, so that the text differs with normalization.
    samples = np.random.default_rng(2).normal(size=4000).astype(np.float32)
    samples *= np.linspace(0.01, 3, 4000, dtype=np.float32)
    wide = samples.astype(np.float64)
    given = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-7) if normalize else wide
    placed = rl.tensor(given.astype(np.float32)[None], device=device)
    with rl.no_grad():
        model.lm_head.bias.sub_(model(placed)[0].mean(0))  # so that every token has its frames
        ids = model(placed)[0].argmax(-1).numpy().tolist()
    text, before = "", BLANK
    for i in ids:
        if i != before and i >= BETWEEN:
            text += " " if i == BETWEEN else TOKENS[i]
        before = i
    found = rl.pipeline(TASK, model)(samples, words=True)
    assert found["text"] == " ".join(text.split()) != ""
    np.testing.assert_allclose(model.prepared(samples), given, rtol=1e-5, atol=1e-6)


def test_what_a_checkpoint_cannot_do_is_named(rows: ModuleType, table: ModuleType) -> None:
    samples = np.ones(RATE, np.float32)
    pipe = rl.pipeline(TASK, wav2vec2(rows, table))
    others: dict[str, Any] = {
        "task": "translate",
        "language": "de",
        "batch_size": 2,
        "prompt": "a",
        "temperature": 0.5,
    }
    for name, value in others.items():
        with pytest.raises(ValueError, match=f"{name} .* is not supported by wav2vec2"):
            pipe(samples, **{name: value})
    model = wav2vec2(rows, table)
    model.letters = None
    with pytest.raises(ValueError, match=r"no vocabulary; add its vocab\.json"):
        rl.pipeline(TASK, model)(samples)
    model.letters = Letters(tuple("abc"), 0)
    with pytest.raises(ValueError, match="words have no times"):
        rl.pipeline(TASK, model)(samples, words=True)
    with pytest.raises(ValueError, match="no CTC head"):
        rl.pipeline(TASK, wav2vec2(rows, table, row="wav2vec2-states"))(samples)
    with pytest.raises(rl.FormatError, match="sampling_rate 8000 is not supported"):
        wav2vec2(rows, table, preprocessor={"sampling_rate": 8000})
    with pytest.raises(rl.FormatError, match="do_normalize is 1"):
        wav2vec2(rows, table, preprocessor={"do_normalize": 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("feature_size", 2),
        ("padding_value", -1.0),
        ("padding_side", "left"),
        ("sampling_rate", None),
        ("feature_extractor_type", "WhisperFeatureExtractor"),
    ],
)
def test_settings_that_would_change_samples_are_named(
    key: str, value: Any, rows: ModuleType, table: ModuleType
) -> None:
    with pytest.raises(rl.FormatError, match=f"preprocessor_config.json: {key} .* is not support"):
        wav2vec2(rows, table, preprocessor={key: value})


def test_settings_have_the_defaults_of_their_class(rows: ModuleType, table: ModuleType) -> None:
    told = {
        "feature_extractor_type": "Wav2Vec2FeatureExtractor",
        "padding_value": 0.0,
        "return_attention_mask": True,
        "n_fft": 12,
        "do_normalise": False,
    }
    assert moonshine(rows, table, preprocessor=told).normalized
    assert wav2vec2(rows, table, preprocessor=told).normalized
    # null is no value, and what is not normalized
    assert not wav2vec2(rows, table, preprocessor={"do_normalize": None}).normalized


def test_parts_of_a_model_that_are_not_supported_are_named(
    rows: ModuleType, table: ModuleType
) -> None:
    config, names = rows.metadata("wav2vec2")
    tensors = {n: rl.zeros(*shape, device="meta") for n, shape in names.items()}
    for key, value in (
        ("add_adapter", True),
        ("adapter_attn_dim", 16),
        ("feat_extract_norm", "batch"),
        ("conv_stride", [5, 2, 0]),
    ):
        file = {"config.json": json.dumps(config | {key: value}).encode()}
        with pytest.raises(rl.FormatError, match=key):
            rl.models.assemble(file, tensors, device="meta")
    model = wav2vec2(rows, table)
    for shape in ((1, model.least - 1), (model.least,)):
        with pytest.raises(ValueError, match="samples are"):
            model(rl.zeros(*shape))
    assert model(rl.zeros(1, model.least)).shape == (1, 1, 13)
    with pytest.raises(ValueError, match="attention_mask is"):
        model(rl.zeros(1, 100), rl.ones(1, 99))


def test_older_names_of_the_positional_convolution(rows: ModuleType, table: ModuleType) -> None:
    config, names = rows.metadata("wav2vec2")
    older = {"original0": "weight_g", "original1": "weight_v"}
    tensors = {}
    for name, shape in names.items():
        end = name.rpartition(".")[2]
        new = name.removesuffix(f"parametrizations.weight.{end}") + older.get(end, "")
        tensors[new if end in older else name] = rl.tensor(table.values_of(name, tuple(shape)))
    assert len([n for n in tensors if n.endswith(("weight_g", "weight_v"))]) == 2
    model = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)
    found = rows.run(model, table.features_of(config))
    np.testing.assert_allclose(found, rows.golden("wav2vec2")[0], **rows.CLOSE)


@pytest.mark.native
def test_a_saved_folder_keeps_the_vocabulary(
    rows: ModuleType, table: ModuleType, tmp_path: Any
) -> None:
    model = wav2vec2(rows, table, preprocessor={"do_normalize": False})
    model.save_pretrained(tmp_path / "saved")
    again = rl.models.load(tmp_path / "saved")
    assert (again.letters, again.normalized) == (model.letters, False)


# --- Moonshine ----------------------------------------------------------------------------------


def moonshine(rows: ModuleType, table: ModuleType, device: str = "cpu", **files: Any) -> Any:
    """The row's model with a tokenizer of words; `files`: settings, as for `wav2vec2`."""
    config, names = rows.metadata("moonshine")
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    words = json.loads((rows.DATA.parent / "tasks.json").read_text("utf-8"))["tokenizers"]["words"]
    said = {"config.json": config, "tokenizer.json": words}
    said |= {f"{name}_config.json": settings for name, settings in files.items()}
    given = {name: json.dumps(settings).encode() for name, settings in said.items()}
    return rl.models.assemble(given, tensors, device=device)


def continued(model: Any, samples: Any, count: int) -> list[int]:
    """The likeliest `count` tokens after the first, each by the whole model without a cache."""
    heard, ids = rl.tensor(samples[None], device=model.device), [model.first]
    for _ in range(count):
        with rl.no_grad():
            logits = model(heard, rl.tensor([ids], device=model.device))
        ids.append(int(logits[0, -1].argmax().item()))
    return ids[1:]


def test_a_window_is_decoded_until_its_end(
    device: str, rows: ModuleType, table: ModuleType
) -> None:
    said = {"eos_token_id": None, "decoder_start_token_id": 5}
    model = moonshine(rows, table, device, generation=said)
    assert (model.first, model.ends) == (5, ())
    samples = np.random.default_rng(8).normal(size=2 * RATE).astype(np.float32)
    wanted = continued(model, samples, 13)  # 6.5 a second
    assert len(set(wanted)) > 1
    pipe = rl.pipeline(TASK, model)
    found = pipe(samples)
    assert found["text"] == model.tokenizer.decode(wanted) != ""
    [segment] = found["segments"]
    assert (segment["start"], segment["end"], segment["words"]) == (0, 2, [])
    assert 0 < segment["probability"] < 1 and found["language"] is None
    other = next(i for i, token in enumerate(wanted) if token != wanted[0])
    model.ends = (wanted[other],)
    assert pipe(samples)["text"] == model.tokenizer.decode(wanted[:other])
    model.ends = (wanted[0],)
    assert pipe(samples)["segments"] == []
    assert pipe(np.ones(1, np.float32), clips=[[0, 1]])["duration"] == 1 / RATE


def test_windows_of_moonshine_follow_each_other(rows: ModuleType, table: ModuleType) -> None:
    model = moonshine(rows, table, preprocessor={"do_normalize": True})
    assert model.normalized and not moonshine(rows, table).normalized
    model.ends = ()
    samples = np.random.default_rng(9).normal(size=33 * RATE).astype(np.float32)
    samples[25 * RATE : 26 * RATE] *= 1e-3
    found = rl.pipeline(TASK, model)(samples, temperature=0.0)
    first, second = found["segments"]
    assert (first["start"], second["end"]) == (0, 33)
    assert first["end"] == second["start"] == pytest.approx(25.5, abs=0.5)
    # As many tokens as the context holds: 24 with the first.
    wanted = continued(model, model.prepared(samples[: round(first["end"] * RATE)]), 24)
    assert first["text"] == " " + model.tokenizer.decode(wanted)


def test_what_moonshine_cannot_do_is_named(rows: ModuleType, table: ModuleType) -> None:
    model, samples = moonshine(rows, table), np.ones(RATE, np.float32)
    pipe = rl.pipeline(TASK, model)
    with pytest.raises(ValueError, match="moonshine: words have no times"):
        pipe(samples, words=True)
    others: dict[str, Any] = {"task": "translate", "hotwords": "a", "suppress_tokens": [1]}
    for name, value in others.items():
        with pytest.raises(ValueError, match=f"{name} .* is not supported by moonshine"):
            pipe(samples, **{name: value})
    model.tokenizer = None
    with pytest.raises(ValueError, match=r"no tokenizer; add its tokenizer\.json"):
        pipe(samples)
    for name, wrong in (("eos_token_id", [2, 37]), ("decoder_start_token_id", "x")):
        with pytest.raises(rl.FormatError, match=name):
            moonshine(rows, table, generation={name: wrong})
    ids = rl.zeros(1, 2, dtype=rl.int64)
    with pytest.raises(ValueError, match=r"samples are .*; they must be \(batch, 895 at least"):
        model(rl.zeros(1, 894), ids)
    with pytest.raises(TypeError, match="samples are int64"):
        model(rl.zeros(1, 900, dtype=rl.int64), ids)
    assert model(rl.zeros(1, 895), ids).shape == (1, 2, 37)


def test_parts_of_moonshine_that_are_not_supported_are_named(
    rows: ModuleType, table: ModuleType
) -> None:
    config, names = rows.metadata("moonshine")
    tensors = {n: rl.zeros(*shape, device="meta") for n, shape in names.items()}
    odd = {"rope_type": "dynamic", "factor": 2.0}
    for key, value, named in (
        ("decoder_num_attention_heads", 2, "decoder_num_attention_heads 2"),
        ("encoder_num_key_value_heads", 2, "encoder_num_key_value_heads 2"),
        ("rope_parameters", {"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5"),
        ("rope_parameters", odd, "rope_type 'dynamic'"),
    ):
        file = {"config.json": json.dumps(config | {key: value}).encode()}
        with pytest.raises(rl.FormatError, match=named):
            rl.models.assemble(file, tensors, device="meta")

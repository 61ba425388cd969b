"""Transcription: its rules and times by definition, and real recordings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.models.layers.speech.tokens import SpeechTokens
from rushlight.models.speech import words, writers
from rushlight.models.speech.decode_window import Decoded
from rushlight.models.speech.rules import Rules
from rushlight.models.speech.transcribe import COPIED, WINDOW, Transcriber

# Text is 0 to 9, then the end and the other special tokens, then timestamps from 20 on.
IDS = {
    "endoftext": 10,
    "startoftranscript": 11,
    "translate": 12,
    "transcribe": 13,
    "startoflm": 14,
    "startofprev": 15,
    "nospeech": 16,
    "notimestamps": 19,
}
TOKENS = SpeechTokens(IDS, 120, suppress=(3,), begin_suppress=(4, 10))
TIME = 20


def allowed(written: Sequence[int], likely: Sequence[int] = ()) -> set[int]:
    """The tokens that may follow; `likely` ones have larger logits."""
    row = np.zeros(120)
    row[[*likely]] = 9
    return set(np.flatnonzero(np.isfinite(Rules(TOKENS).allowed(row, written))).tolist())


def test_a_transcript_begins_with_a_timestamp_of_at_most_a_second() -> None:
    assert allowed([]) == set(range(TIME, TIME + 51))


def test_timestamps_come_in_pairs_and_do_not_go_back() -> None:
    text = set(range(10)) - {3}
    assert allowed([TIME], [1]) == text | {10}  # text follows the first one
    assert allowed([TIME, 5], [1]) == text | {10} | set(range(TIME + 1, 120))
    assert allowed([TIME, 5, TIME + 9], [10]) == {10} | set(range(TIME + 9, 120))
    assert allowed([TIME, 5, TIME + 9, TIME + 9], [1]) == text | {10}


def test_a_timestamp_is_written_where_all_are_likelier_than_any_text() -> None:
    assert allowed([TIME, 5]) == set(range(TIME + 1, 120))  # each as likely as each text
    assert 1 in allowed([TIME, 5], [1])


def test_a_vocabulary_without_timestamps_is_named() -> None:
    with pytest.raises(ValueError, match="no timestamps"):
        Rules(SpeechTokens({"endoftext": 10}, 20)).allowed(np.zeros(20), [])


def cheapest(cost: np.ndarray) -> float:
    """The least cost of a path of steps right, down and diagonal, by trying all."""
    n, m = cost.shape
    best = np.inf
    for steps in itertools.product((0, 1, 2), repeat=n + m - 2):
        i = j = 0
        total = cost[0, 0]
        for step in steps:
            i, j = i + (step != 1), j + (step != 0)
            if i >= n or j >= m:
                break
            total += cost[i, j]
            if (i, j) == (n - 1, m - 1):
                best = min(best, total)
                break
    return best


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (3, 4)])
def test_warping_finds_the_cheapest_path(shape: tuple[int, int]) -> None:
    cost = np.random.default_rng(sum(shape)).normal(size=shape) + 1
    rows, columns = words.warp(cost)
    assert (rows[0], columns[0], rows[-1], columns[-1]) == (0, 0, shape[0] - 1, shape[1] - 1)
    assert set(np.diff(rows)) | set(np.diff(columns)) <= {0, 1}
    np.testing.assert_allclose(cost[rows, columns].sum(), cheapest(cost))


class Letters:
    """A tokenizer whose tokens are pieces of text; 7 and 8 are the halves of one character."""

    pieces = (" a", "b", ",", " c", " (", "d", ")", b"\xc3", b"\xa9")

    def decode(self, ids: Sequence[int]) -> str:
        parts = (self.pieces[i] for i in ids)
        raw = b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)
        return raw.decode("utf-8", "replace")


def test_words_have_the_times_of_their_attention() -> None:
    tokens = [0, 1, 2, 3, 4, 5, 6]
    weights = np.full((2, 1 + len(tokens) + 2, 60), 1e-3)
    for row in range(len(tokens) + 1):
        weights[:, row + 1, 6 * row : 6 * row + 6] = 1
    found = words.timed(Letters(), tokens, [-0.1] * 7, weights, 1, 48, "en")
    found = words.joined(found)
    assert [w["word"] for w in found] == [" ab,", " c", " (d)"]
    starts = [0.0, 18 * 0.02, 24 * 0.02]
    np.testing.assert_allclose([w["start"] for w in found], starts, atol=0.03)
    np.testing.assert_allclose(found[0]["probability"], np.exp(-0.1))
    assert words.split(Letters(), [0, 7, 8, 3], "en") == [[0, 7, 8], [3]]
    assert words.split(Letters(), [0, 1, 7, 8], "zh") == [[0], [1], [7, 8]]


def word(text: str, start: float, end: float) -> dict[str, Any]:
    return {"word": text, "start": start, "end": end}


def test_marks_and_the_words_after_them_do_not_last_through_a_pause() -> None:
    given = [
        word(" a", 0, 0.2),
        word(" b", 0.2, 1.4),
        word(".", 1.4, 4),
        word(" c", 4, 6),
        word(" d", 6, 6.2),
    ]
    assert words.usual_length(given) == 0.7  # the median is 1.2
    assert words.usual_length([]) == 0
    found = words.bounded([dict(w) for w in given])
    np.testing.assert_allclose(
        [(w["start"], w["end"]) for w in found],
        [(0, 0.2), (0.2, 1.4), (1.4, 2.8), (4.6, 6), (6, 6.2)],
    )


def test_segments_and_their_words_agree() -> None:
    one: dict[str, Any] = {
        "start": 0.0,
        "end": 9.0,
        "words": [word(" a", 3, 8), word(" b", 8, 8.4)],
    }
    words.fit(one, 0.3, 1.0)  # the first word begins in the pause before
    np.testing.assert_allclose(
        [one["start"], one["words"][0]["start"], one["end"]], [7.4, 7.4, 8.4]
    )
    one = {"start": 5.0, "end": 7.0, "words": [word(" a", 4, 5.4), word(" b", 6, 8)]}
    words.fit(one, 0.5, 4.0)  # the model's own timestamps are over half a second off
    np.testing.assert_allclose([one["words"][0]["start"], one["words"][1]["end"]], [4.9, 7.0])
    assert (one["start"], one["end"]) == (5.0, 7.0)


RESULT: dict[str, Any] = {
    "text": "A <b> & c. D",
    "language": "en",
    "duration": 3700.5,
    "segments": [
        {"start": 0.0, "end": 1.5, "text": " A <b> &\n c.", "words": []},
        {"start": 3661.0, "end": 3700.25, "text": " D --> e", "words": []},
    ],
}


def test_subtitles() -> None:
    w = writers.WRITERS
    assert w["txt"](RESULT) == "A <b> & c.\nD -> e\n"
    assert w["srt"](RESULT) == (
        "1\n00:00:00,000 --> 00:00:01,500\nA <b> & c.\n\n2\n01:01:01,000 --> 01:01:40,250\nD -> e\n"
    )
    assert w["vtt"](RESULT) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nA &lt;b> &amp; c.\n\n"
        "01:01:01.000 --> 01:01:40.250\nD -> e\n"
    )
    assert w["tsv"](RESULT) == ("start\tend\ttext\n0\t1500\tA <b> & c.\n3661000\t3700250\tD -> e\n")
    assert json.loads(w["json"](RESULT)) == RESULT


class Recording(Transcriber):
    """Windows whose text is their number, decoded at given temperatures; what each was told."""

    def __init__(self, temperatures: Sequence[float], condition: bool) -> None:
        self.temperatures, self.told = temperatures, list[list[int]]()
        self.options, self.language = {"condition": condition}, "en"
        self.tokens = SimpleNamespace(endoftext=1000)
        self.total = WINDOW * len(temperatures)

    def _states(self, parts: Any) -> Any:
        return None

    def _before(self, text: Sequence[int]) -> list[int]:
        self.told.append(list(text))
        return self.told[-1]

    def _believed(self, states: Any, before: list[int], first: Any = None) -> Any:
        yield from ()
        number = len(self.told)
        return Decoded([number], [0.0], 0.0, self.temperatures[number - 1], str(number))

    def _heard(self, decoded: Any, states: Any, at: int, size: int, text: list[int]) -> Any:
        yield from ()
        text += decoded.tokens
        return size


def test_windows_are_told_the_text_before_them_but_none_that_was_drawn_freely() -> None:
    """As in openai-whisper: neither that of its window nor what came before it."""
    nothing = np.zeros(4 * WINDOW * 160, np.float32)
    for temperatures, condition, told in (
        ((0.0, 0.4, 0.0, 0.0), True, [[], [1], [1, 2], [1, 2, 3]]),
        ((0.0, 0.8, 0.0, 0.0), True, [[], [1], [], [3]]),
        ((0.0, 0.0, 0.0, 0.0), False, [[], [], [], []]),
    ):
        recording = Recording(temperatures, condition)
        list(recording._sequence(nothing, 0, recording.total))
        assert recording.told == told


class Cutting(Transcriber):
    """What `_cut` makes of the tokens of one window."""

    def __init__(self) -> None:
        self.options = {
            "no_speech_threshold": 0.6,
            "logprob_threshold": -1.0,
            "compression_threshold": 2.4,
            "temperature": 0.0,
        }
        self.tokens = SimpleNamespace(timestamp_begin=TIME, endoftext=10)
        decode = lambda ids: " ".join(map(str, ids))  # noqa: E731
        self.model = SimpleNamespace(tokenizer=SimpleNamespace(decode=decode))


@pytest.mark.parametrize(
    ("tokens", "times"),
    [
        ([TIME, 1, 2, TIME + 100], [(3.0, 3.5)]),  # one segment, said to end at 2 s
        ([TIME, 1, TIME + 10, TIME + 10, 2, TIME + 90], [(3.0, 3.2), (3.2, 3.5)]),
        ([TIME, 1, TIME + 10, TIME + 60, 2, TIME + 90], [(3.0, 3.2), (3.5, 3.5)]),
        ([TIME, 1, 2], [(3.0, 3.5)]),
        ([TIME, 1, TIME + 5], [(3.0, 3.1)]),
    ],
)
def test_segments_end_where_the_clip_ends(
    tokens: list[int], times: list[tuple[float, float]]
) -> None:
    decoded = Decoded(tokens, [0.0] * len(tokens), 0.0, 0.0, "text")
    found, _ = Cutting()._cut(decoded, 300, 50)  # half a second from 3 s on
    assert [(s["start"], s["end"]) for s in found] == [pytest.approx(t) for t in times]


def test_words_end_where_the_clip_ends() -> None:
    segment: Any = {"start": 0.2, "end": 1.7, "words": [word("a", 0.2, 0.9), word("b", 1.2, 1.7)]}
    words.clamp(segment, 1.0)
    assert (segment["start"], segment["end"]) == (0.2, 1.0)
    assert [(w["start"], w["end"]) for w in segment["words"]] == [(0.2, 0.9), (1.0, 1.0)]


class Copying(Recording):
    """Windows of so many tokens of one text each, wherever they are told a text."""

    def __init__(self, run: int) -> None:
        super().__init__((0.0, 0.0), True)
        self.run_, self.found = run, list[int]()

    def _believed(self, states: Any, before: list[int], first: Any = None) -> Any:
        yield from ()
        copied = [*range(100, 100 + self.run_), 1001]
        tokens = copied if len(self.told) < 3 else [7, 8]
        return Decoded(tokens, [0.0], 0.0, 0.0, "")

    def _heard(self, decoded: Any, states: Any, at: int, size: int, text: list[int]) -> Any:
        self.found = decoded.tokens
        return (yield from super()._heard(decoded, states, at, size, text))


@pytest.mark.parametrize(("run", "found"), [(COPIED - 1, [100]), (COPIED, [7, 8])])
def test_a_window_that_copies_what_it_was_told_is_heard_without_it(
    run: int, found: list[int]
) -> None:
    recording = Copying(run)
    list(recording._sequence(np.zeros(2 * WINDOW * 160, np.float32), 0, recording.total))
    assert recording.found[: len(found)] == found
    assert recording.told[1] and recording.told[2:] == ([[]] if found == [7, 8] else [])


def test_texts_that_repeat_themselves_compress(recordings: ModuleType) -> None:
    assert Decoded([], [], 0, 0, "no, " * 40).compression > 2.4
    assert Decoded([], [], 0, 0, recordings.TEXTS["beckett"]).compression < 2.4
    assert Decoded([], [], 0, 0, "").compression == 0


def test_word_errors_are_counted(recordings: ModuleType) -> None:
    assert recordings.word_errors("A b, c!", "a b c") == 0
    assert recordings.word_errors("a x c d", "a b c") == pytest.approx(2 / 3)


# --- real recordings ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "q8_0", "q5_0"])
def test_a_recording_is_transcribed(recordings: ModuleType, dtype: str) -> None:
    model = rl.models.load("whisper-tiny.en")
    if dtype != "float16":
        model.quantize_(dtype)
    found = rl.pipeline("automatic-speech-recognition", model)(
        recordings.recording("beckett"), words=True
    )
    assert recordings.word_errors(found["text"], recordings.TEXTS["beckett"]) == 0
    assert found["language"] == "en" and found["duration"] == pytest.approx(9.96, abs=0.01)
    told = [word for segment in found["segments"] for word in segment["words"]]
    assert "".join(w["word"] for w in told).strip() == found["text"]
    assert all(0 <= w["start"] <= w["end"] <= 10 and 0 < w["probability"] <= 1 for w in told)
    assert [w["start"] for w in told] == sorted(w["start"] for w in told)


WORD_TIMES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "word_times.json").read_text("utf-8")
)


@pytest.mark.parametrize("name", ["jfk", "beckett"])
def test_words_have_the_times_of_openais_own(recordings: ModuleType, name: str) -> None:
    pipe = rl.pipeline("automatic-speech-recognition", "whisper-tiny.en")
    found = pipe(recordings.recording(name), words=True)
    told = [word for segment in found["segments"] for word in segment["words"]]
    wanted = WORD_TIMES[name]
    assert [recordings.spoken(w["word"]) for w in told] == [
        recordings.spoken(w) for w, *_ in wanted
    ]
    np.testing.assert_allclose(
        [(w["start"], w["end"]) for w in told], [times for _, *times in wanted], atol=0.15
    )


def test_a_recording_is_transcribed_on_webgpu(recordings: ModuleType) -> None:
    if not any(d.type == "webgpu" for d in rl.devices()):
        pytest.skip("there is no webgpu device")
    pipe = rl.pipeline("automatic-speech-recognition", "whisper-tiny.en", device="webgpu")
    assert (
        recordings.word_errors(
            pipe(recordings.recording("beckett"))["text"], recordings.TEXTS["beckett"]
        )
        == 0
    )


def test_a_recording_of_several_windows_on_the_command_line(
    recordings: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    given = [
        "transcribe",
        str(recordings.recording("two_cities")),
        "--output",
        "json",
        "--output-dir",
    ]
    assert run([*given, str(tmp_path)]) == 0
    found = json.loads((tmp_path / "two_cities.json").read_text("utf-8"))
    assert recordings.word_errors(found["text"], recordings.TEXTS["two_cities"]) <= 0.02
    starts = [s["start"] for s in found["segments"]]
    assert len(starts) >= 4 and starts == sorted(starts)
    assert "44.4 s of audio" in capsys.readouterr().err
    assert run(["transcribe", str(recordings.recording("beckett")), "--output", "pdf"]) != 0
    assert "txt, srt, vtt, tsv, json" in capsys.readouterr().err


@pytest.mark.parametrize("batch_size", [1, 2])
def test_speech_alone_is_transcribed_in_batches(recordings: ModuleType, batch_size: int) -> None:
    pipe = rl.pipeline("automatic-speech-recognition", "whisper-tiny.en", vad="silero-vad")
    audio = rl.audio.load(recordings.recording("two_cities"))
    quiet = np.zeros(audio.rate * 40, np.float32)
    apart = rl.audio.Audio(np.concatenate([audio.samples, quiet]), audio.rate)
    found = pipe(apart, batch_size=batch_size, words=True)
    assert recordings.word_errors(found["text"], recordings.TEXTS["two_cities"]) <= 0.02
    starts = [s["start"] for s in found["segments"]]
    assert starts == sorted(starts) and found["segments"][-1]["end"] < 46
    assert found["duration"] > 84


def test_clips_alone_are_transcribed(recordings: ModuleType) -> None:
    pipe = rl.pipeline("automatic-speech-recognition", "whisper-tiny.en")
    found = pipe(recordings.recording("beckett"), clips=[[3.3, 4.5], {"start": 8.0, "end": 9.5}])
    assert recordings.word_errors(found["text"], "No matter. Fail better.") == 0
    assert [round(s["start"]) for s in found["segments"]] == [3, 8]
    with pytest.raises(ValueError, match="clip 3.0 to 2.0 does not follow on 1.0"):
        pipe(np.zeros(80_000, np.float32), clips=[[0, 1], [3, 2]])
    with pytest.raises(TypeError, match="a list of"):
        pipe(np.zeros(80_000, np.float32), clips=[[0, 1, 2]])


def test_suppressed_tokens_are_not_written() -> None:
    rules = Rules(TOKENS, [5, -1])
    row = rules.allowed(np.zeros(120), [TIME, 6, 7])
    assert row[5] == -np.inf and np.isfinite(rules.allowed(np.ones(120), [TIME])[3])
    with pytest.raises(ValueError, match="suppress_tokens has 120, but the vocabulary has 120"):
        Rules(TOKENS, [120])


def test_silence_and_noise_have_no_text() -> None:
    pipe = rl.pipeline("automatic-speech-recognition", "whisper-tiny.en")
    noise = np.random.default_rng(1).normal(size=16000 * 8).astype(np.float32) * 1e-3
    for samples in (np.zeros(16000 * 5, np.float32), noise):
        assert pipe(samples)["text"] == ""


def test_what_it_cannot_do_is_named() -> None:
    pipe = rl.pipeline("automatic-speech-recognition", "whisper-tiny.en")
    with pytest.raises(ValueError, match="English only"):
        pipe(np.zeros(16000, np.float32), language="de")
    with pytest.raises(TypeError, match="a file, its bytes, samples"):
        pipe(3)

"""Live transcription: words that stay, windows that move, models without times; long files."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.audio.files import load, open_audio
from rushlight.models.audio.inputs import Samples, samples_of
from rushlight.models.speech.live import LiveTranscriber
from rushlight.models.speech.merge_transcripts import agreed, grouped, joint
from rushlight.models.speech.split_windows import MOST, windows
from rushlight.models.speech.tape import Tape, loudness, sounding
from rushlight.models.tasks import find

RATE = 16000


def word(text: str, start: float, end: float) -> dict[str, Any]:
    return {"word": f" {text}", "start": start, "end": end, "probability": 0.5}


class Speaker:
    """Stands for a transcriber: hears word i in second i, unless it has its mind elsewhere."""

    language = "en"

    def __init__(self, timed: bool, slips: dict[int, str]) -> None:
        self.timed, self.slips = timed, slips
        self.calls: list[int] = []

    def again(self) -> Speaker:
        """Another window."""
        return self

    def run(self, samples: Any) -> Any:
        """A word for each second, whose number its loudness tells; the newest may be a slip."""
        yield from ()
        self.calls.append(len(samples))
        found = []
        for at in range(0, len(samples) - RATE // 2, RATE):
            number = round(float(np.abs(samples[at + RATE // 2 : at + RATE]).max()) * 1000)
            if number:
                text = f"w{number}." if number % 7 == 0 else f"w{number}"
                found.append(word(text, at / RATE, at / RATE + 0.8))
        if found and len(self.calls) in self.slips:
            found[-1]["word"] = " " + self.slips[len(self.calls)]
        text = "".join(w["word"] for w in found)
        segment = {
            "start": 0.0,
            "end": len(samples) / RATE,
            "text": text,
            "probability": 0.5,
            "words": found if self.timed else [],
        }
        return {"language": "en", "segments": [segment] if found else []}


class Stub(rl.models.Model):
    """A model whose transcriber is a Speaker."""

    tasks = ("automatic-speech-recognition",)

    def __init__(self, timed: bool, slips: dict[int, str] | None = None) -> None:
        self.timed, self.speaker = timed, Speaker(timed, slips or {})

    @property
    def followed(self) -> frozenset[str]:
        """The options that it follows."""
        return frozenset({"words"} if self.timed else set())

    def transcriber(self, options: Any) -> Speaker:
        """The Speaker."""
        return self.speaker


def speech(seconds: int) -> Any:
    """A tone in each second, as loud as its number from 5 on."""
    t = np.arange(RATE)
    tone = np.sin(t * 0.3) * (np.arange(RATE) < 0.9 * RATE)
    return np.concatenate([tone * (5 + i) / 1000 for i in range(seconds)]).astype(np.float32)


def listened(live: LiveTranscriber, samples: Any, step: int) -> list[str]:
    """The text after each chunk, and at the end."""
    texts = [live.push(samples[at : at + step]).text for at in range(0, len(samples), step)]
    return [*texts, live.end().text]


@pytest.mark.parametrize("timed", [True, False])
def test_text_only_grows_and_windows_stay_short(timed: bool) -> None:
    m = Stub(timed, {3: "slip", 9: "again"})
    live = LiveTranscriber(m)
    texts = listened(live, speech(70), RATE // 2)
    assert all(b.startswith(a) for a, b in zip(texts, texts[1:], strict=False))
    words = texts[-1].split()
    wanted = [f"w{i}." if i % 7 == 0 else f"w{i}" for i in range(5, 75)]
    assert words == wanted
    assert max(m.speaker.calls) <= (MOST + 1) * RATE and "slip" not in texts[-1]
    assert live.heard.tentative == [] and live.heard.seconds == 70
    if timed:
        ends = [s["words"][-1]["word"] for s in live.heard.segments[:-1]]
        assert all(text.endswith(".") for text in ends)  # a segment is a sentence


def test_memory_does_not_grow_with_the_audio() -> None:
    live = LiveTranscriber(Stub(True))
    held = []
    for _ in range(20):
        live.push(speech(10))
        held.append(sum(len(chunk) for chunk in live._tape._chunks))
    assert max(held) <= 50 * RATE and max(held[10:]) <= max(held[:10])


def test_another_rate_and_what_is_no_sound() -> None:
    m = Stub(True)
    live = LiveTranscriber(m, rate=2 * RATE)
    live.push(np.repeat(speech(3), 2))
    assert live.seconds == 3 and live.end().text == "w5 w6 w7."
    assert LiveTranscriber(m).end().text == ""
    silent = LiveTranscriber(m)
    calls = len(m.speaker.calls)
    silent.push(np.zeros(RATE * 40, np.float32))
    assert silent.end().text == "" and len(m.speaker.calls) == calls


def test_what_does_not_fit_is_named() -> None:
    m = Stub(True)
    live = LiveTranscriber(m)
    with pytest.raises(ValueError, match=r"int64 of shape \(2,\)"):
        live.push(np.array([1, 2]))
    live.end()
    with pytest.raises(ValueError, match="the audio has ended"):
        live.push(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="rate is 0"):
        LiveTranscriber(m, rate=0)
    with pytest.raises(ValueError, match="every is 0"):
        LiveTranscriber(m, every=0)
    with pytest.raises(TypeError, match="option 'voice'"):
        LiveTranscriber(m, voice=1)


def test_a_page_sees_the_options_that_a_model_follows(rows: ModuleType, table: ModuleType) -> None:
    task = find("automatic-speech-recognition")

    def options(m: Any) -> set[str]:
        return set(task.schema(m)["options"]["properties"])

    assert options(rows.model("moonshine", table)) == {"clips", "vad"}
    english = options(rows.model("whisper", table))
    assert "words" in english and not {"language", "task"} & english
    assert {"language", "task"} <= set(task.schema()["options"]["properties"])
    assert options(Stub(True)) == {"words"} and options(Stub(False)) == set()


def test_words_agree_whatever_their_marks() -> None:
    a = [word("And", 0, 1), word("so,", 1, 2), word("it", 2, 3)]
    b = [word("and", 0, 1), word("so", 1, 2), word("is", 2, 3)]
    assert agreed(a, b) == 2 and agreed(a, []) == 0
    given = [
        word("a,", 0, 1),
        word("b", 2.5, 3),
        word("c.", 3, 4),
        word("d", 4, 13),
        word("e,", 13, 14),
        word("f", 14, 15),
    ]
    assert [s["text"] for s in grouped(given)] == [" a,", " b c.", " d e,", " f"]
    there = grouped([word(text, i, i + 0.5) for i, text in enumerate(("well", "no", "no"))])
    again = [word(text, i, i + 0.5) for i, text in enumerate(("well", "no", "no", "no", "yes"))]
    assert [joint(again, there, guess) for guess in (2, 3, 4)] == [3, 3, 3]
    assert joint(again, [], 1) == 1
    quiet = np.zeros(RATE * 3, np.float32)
    quiet[RATE : RATE + 800] = np.tile([0.01, -0.01], 400)
    assert sounding(quiet) == (RATE - 4800, RATE + 800 + 4800)


def test_a_recording_in_chunks(recordings: ModuleType) -> None:
    audio = load(recordings.recording("jfk"))
    live = LiveTranscriber("whisper-tiny.en", rate=audio.rate, every=2)
    texts = listened(live, audio.samples, audio.rate // 2)
    assert all(b.startswith(a) for a, b in zip(texts, texts[1:], strict=False))
    assert recordings.word_errors(texts[-1], recordings.TEXTS["jfk"]) == 0
    assert len(set(texts)) >= 4 and live.heard.language == "en"
    with pytest.raises(ValueError, match="English only"):
        LiveTranscriber(live.model, language="de")


# --- long files -----------------------------------------------------------------------------------


def head(size: int, rate: int, form: bytes = b"RIFF", stated: int | None = None) -> bytes:
    """The head of a WAV file of so many bytes of 16-bit samples."""
    data = size if stated is None else stated
    more = b"" if form == b"RIFF" else b"ds64" + struct.pack("<IQQQI", 28, size, size, size // 2, 0)
    sizes = struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    chunks = b"WAVE" + more + b"fmt " + sizes + b"data"
    return form + struct.pack("<I", 2**32 - 1) + chunks + struct.pack("<I", data)


def sparse(path: Path, seconds: int, rate: int = RATE) -> Path:
    """A WAV file of silence that takes no room, with a click at its end."""
    size = seconds * rate * 2
    first = head(size, rate)
    with path.open("wb") as file:
        file.write(first)
        file.truncate(len(first) + size - 2)
        file.seek(0, 2)
        file.write(b"\0\x40")
    return path


@pytest.mark.native
@pytest.mark.parametrize("rate", [16000, 11025, 44100, 44099])
def test_parts_of_a_file_are_those_of_the_whole(rate: int, tmp_path: Path) -> None:
    values = np.random.default_rng(rate).integers(-9000, 9000, rate * 3).astype("<i2")
    path = tmp_path / "a.wav"
    path.write_bytes(head(values.nbytes, rate) + values.tobytes())
    whole = rl.audio.resample(rl.tensor(load(path).samples), rate, RATE).numpy()
    found = samples_of(path, RATE)
    assert len(found) == len(whole) == 3 * RATE
    np.testing.assert_allclose(found[:], whole, atol=1e-6)
    for start, stop in ((0, 1), (1234, 5678), (RATE, 2 * RATE), (47_999, 48_100)):
        np.testing.assert_allclose(found[start:stop], whole[start:stop], atol=1e-6)
    again = Samples(Samples(open_audio(path), 8000), RATE)
    assert len(again) == 3 * RATE


@pytest.mark.native
def test_sizes_past_four_gigabytes(tmp_path: Path) -> None:
    values = np.arange(8, dtype="<i2")
    for form in (b"RF64", b"RIFF"):
        raw = head(values.nbytes, RATE, form, 2**32 - 1) + values.tobytes()
        np.testing.assert_array_equal(load(raw).samples * 32768, np.arange(8))
    rest = head(values.nbytes, RATE, b"RF64", 2**32 - 1) + values.tobytes() + b"LIST\4\0\0\0abcd"
    assert load(rest).count == 8
    path = sparse(tmp_path / "long.wav", 2**24, 64)
    with pytest.raises(rl.FormatError, match="read parts by rl.audio.open_audio"):
        load(path)
    path.write_bytes(head(2**20, RATE) + bytes(2**20))
    file = open_audio(path)
    path.write_bytes(head(2**20, RATE))
    with pytest.raises(rl.FormatError, match="has changed: it ends after 262144"):
        file.read(2**18, 2**19)


class Deaf:
    """Stands for silero-vad: hears nothing, and notes how many samples it is given at once."""

    rate, chunk, device = RATE, 512, "cpu"

    def __init__(self) -> None:
        self.most = self.count = 0

    def listen(self, samples: Any, state: Any) -> tuple[Any, Any]:
        """No speech but in the last chunk."""
        n = samples.shape[1]
        self.most, self.count = max(self.most, n), self.count + n
        return rl.zeros(1, -(-n // 512)), None


@pytest.mark.native
@pytest.mark.parametrize(("rate", "hours"), [(16000, 2), (8000, 1)])
def test_hours_of_voice_activity_hold_minutes(rate: int, hours: int, tmp_path: Path) -> None:
    path, model = sparse(tmp_path / "day.wav", hours * 3600, rate), Deaf()
    task = find("voice-activity-detection")
    tracemalloc.start()
    try:
        steps = task.run(model, path, task.checked({}), False)
        sent = None
        while True:
            try:
                item = steps.send(sent)
            except StopIteration as finished:
                found = finished.value
                break
            sent = item.wait() if hasattr(item, "wait") else None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == {"duration": 3600.0 * hours, "segments": []}
    assert model.count == hours * 3600 * RATE and model.most == 60 * RATE
    # Of two hours the samples alone are 460 MB; 7 MB are the probabilities as Python's numbers.
    assert peak < 36e6 + 4e6 * hours


@pytest.mark.native
def test_windows_of_hours_are_cut_with_little_in_memory(tmp_path: Path) -> None:
    samples = samples_of(sparse(tmp_path / "hours.wav", 2 * 3600), RATE)
    tracemalloc.start()
    try:
        found = windows(samples, 0, len(samples))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found[-1][1] == 2 * 3600 * RATE and all(b - a <= MOST * RATE for a, b in found)
    assert peak < 10e6
    assert samples[len(samples) - 1 :].tolist() == [0.5]


def test_a_tape_forgets() -> None:
    tape = Tape(RATE)
    for i in range(4):
        tape.add(np.full(10, i, np.float32))
    tape.forget(25)
    assert tape.read(15, 35).tolist() == [0] * 5 + [2] * 10 + [3] * 5 and tape.count == 40
    assert loudness(np.zeros(799, np.float32)).size == 0

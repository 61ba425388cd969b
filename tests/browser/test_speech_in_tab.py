"""Speech transcribed in a page, recorded and live, with the weights of the command line."""

from __future__ import annotations

import base64
import importlib.util
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl

pytestmark = pytest.mark.warm_start

NAME = "whisper-tiny.en"
RUN = """async ([packed, name]) => {
  const { createRushlight } = await import("/rushlight/client.js");
  const rl = await createRushlight();
  const pipe = await rl.pipeline("automatic-speech-recognition", `/models/${name}/`);
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const samples = new Float32Array(bytes.buffer);
  const done = [];
  const onProgress = (told) => { if (told.stage === "transcribe") done.push(told.done); };
  const found = await pipe({ samples, rate: 16000 }, { words: true, onProgress });
  let error = "";
  try { await pipe({ samples, rate: 0 }); } catch (caught) { error = caught.message; }
  await pipe.model.dispose();
  return { found, done, error };
}"""

START = """async ([name]) => {
  const { createRushlight } = await import("/rushlight/client.js");
  globalThis.rl = await createRushlight();
  globalThis.model = await rl.load(`/models/${name}/`);
}"""
# Chunks of half a second, as fast as they are taken; every text that came on the way.
PUSHED = """async () => {
  const bytes = await (await fetch("/shared/jfk.wav")).arrayBuffer();
  const whole = new Int16Array(bytes.slice(44, 44 + 2 * Math.floor((bytes.byteLength - 44) / 2)));
  const texts = [];
  let look = () => {};
  const onText = ({ text }) => { texts.push(text); look(); };
  const live = rl.transcribeLive(model, { every: 3, onText });
  const chunk = new Float32Array(8000);
  for (let at = 0; at + 8000 <= whole.length; at += 8000) {
    chunk.set(Array.from(whole.subarray(at, at + 8000), (value) => value / 32768));
    live.push(chunk);
    if (at % 48000 === 40000) await new Promise((resolve) => (look = resolve));
  }
  const { text, segments, tentative, language } = await live.end();
  const srt = await rl.subtitles({ segments }, "srt");
  const errors = [];
  for (const wrong of [() => live.push(chunk), () => rl.subtitles({ segments }, "pdf"),
    () => rl.transcribeLive(model, { language: "de" }).end(),
    () => rl.transcribeLive(model, { rate: 0 }).end()]) {
    try { await wrong(); errors.push(""); } catch (error) { errors.push(error.message); }
  }
  return { texts, text, tentative, language, srt, errors };
}"""
# What the browser's microphone hears, until the sample's last words have stayed.
HEARD = """async () => {
  const source = await navigator.mediaDevices.getUserMedia({ audio: {
    echoCancellation: false, noiseSuppression: false, autoGainControl: false } });
  const live = rl.transcribeLive(model, { source });
  const texts = [];
  for await (const { text } of live) {
    texts.push(text);
    if (/do for your country/.test(text)) break;
  }
  for (const track of source.getTracks()) track.stop();
  let error = "";
  try { await live.end(); } catch (caught) { error = caught.name; }
  return { texts, error };
}"""


@pytest.fixture
def recordings() -> ModuleType:
    """The module of recordings of speech and what they say."""
    path = Path(__file__).parents[1] / "models" / "recordings.py"
    spec = importlib.util.spec_from_file_location("recordings", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_recording_is_transcribed_in_a_page(
    pages: Any, serve: Any, hearing: Path, recordings: ModuleType
) -> None:
    place = serve(hearing)
    page = pages.open(f"{place.url}rushlight/NOTICE.txt")
    audio = rl.audio.load(recordings.recording("beckett"))
    packed = base64.b64encode(audio.samples.tobytes()).decode()
    told = page.evaluate(RUN, [packed, NAME])
    found = told["found"]
    assert recordings.word_errors(found["text"], recordings.TEXTS["beckett"]) == 0
    words = [word for segment in found["segments"] for word in segment["words"]]
    assert "".join(w["word"] for w in words).strip() == found["text"]
    assert told["done"][-1] == int(audio.seconds)
    assert "rate is 0" in told["error"]


def grows(texts: list[str]) -> bool:
    """Whether each text begins with the one before."""
    return all(b.startswith(a) for a, b in pairwise(texts))


def test_live_speech_keeps_the_words_that_two_looks_agree_on(
    listener: Any, serve: Any, hearing: Path, recordings: ModuleType
) -> None:
    context = listener.new_context(permissions=["microphone"], service_workers="block")
    context.set_default_timeout(400_000)
    page = context.new_page()
    page.goto(f"{serve(hearing).url}rushlight/NOTICE.txt")
    page.evaluate(START, [NAME])
    found = page.evaluate(PUSHED)
    assert recordings.word_errors(found["text"], recordings.TEXTS["jfk"]) == 0
    assert grows([*found["texts"], found["text"]]) and len(set(found["texts"])) > 1
    assert found["tentative"] == [] and found["language"] == "en"
    assert found["srt"].startswith("1\n00:00:00,") and "fellow Americans" in found["srt"]
    ended, form, language, rate = found["errors"]
    assert "has ended" in ended and "'pdf' is not supported" in form
    assert "English only" in language and "rate is 0" in rate

    heard = page.evaluate(HEARD)
    last = heard["texts"][-1]
    assert grows(heard["texts"]) and heard["error"] == "AbortError"
    # The microphone hears the sample again and again, and may begin within it.
    assert "what you can do for your country" in " ".join(recordings.spoken(last))
    context.close()

"""The whisper page: a sample with its words in time, a microphone, files of all kinds, looks."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.warm_start

SENTENCE = (
    "and so my fellow americans ask not what your country can do for you "
    "ask what you can do for your country"
)
HEARD = """() => (document.documentElement.dataset.heard ?? "").toLowerCase()
  .replace(/[^a-z ]/g, "").replace(/ +/g, " ").trim()"""
COMPLETE = "() => /words in/.test(document.getElementById('speed').textContent)"
# Notes each word that is lit, and the second that sounds: a busy machine looks late.
LIT = """() => {
  window.lit = [];
  const note = (changes) => changes.forEach(({ target }) => {
    if (!target.classList.contains("lit")) return;
    lit.push([target.textContent.trim(), document.getElementById("audio").currentTime]);
  });
  new MutationObserver(note).observe(document.body, { subtree: true, attributeFilter: ["class"] });
}"""
IDLE = "() => document.documentElement.dataset.state !== 'busy'"


def opened(pages: Any, url: str, **options: Any) -> Any:
    page = pages.open(f"{url}whisper/?device=cpu", **options)
    page.wait_for_function("!document.getElementById('main').inert")
    return page


def wav(count: int, value: int = 0, channels: int = 1) -> bytes:
    """A WAV file of so many 16-bit samples at 16 kHz."""
    body = struct.pack("<h", value) * count * channels
    form = struct.pack("<HHIIHH", 1, channels, 16000, 32000 * channels, 2 * channels, 16)
    head = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(body))
    return b"RIFF" + struct.pack("<I", len(head) + len(body)) + head + body


def pictures(studio: Any) -> None:
    """The sample as it plays, dark, and on a phone."""
    for phone, scheme, name in (
        (False, "light", "whisper-desktop"),
        (False, "dark", "whisper-dark"),
        (True, "dark", "whisper-phone-dark"),
    ):
        page = studio.open("whisper/?device=cpu", phone=phone, color_scheme=scheme)
        page.wait_for_function("!document.getElementById('main').inert")
        page.click("#sample")
        page.wait_for_function(COMPLETE)
        page.locator(".word", has_text="country").first.click()
        page.wait_for_selector(".word.lit:text('country')")
        page.click("#play")
        page.wait_for_selector("#play:not(.on)")
        studio.rest(page)
        studio.keep(page, name, whole=phone)


def test_the_sample_becomes_words_in_time_and_subtitles(
    pages: Any, serve: Any, hearing: Path
) -> None:
    page = opened(pages, serve(hearing).url, service_workers="allow")
    page.wait_for_function("document.getElementById('says').innerText.includes('to download')")
    page.wait_for_function("document.getElementById('says').innerText.includes('silero-vad')")
    assert page.is_disabled("#language"), "a model of English has no choice of language"
    page.click("#sample")
    page.wait_for_function(COMPLETE)
    assert page.evaluate(HEARD) == SENTENCE

    # A click plays from the word, which is lit; then the next ones are.
    word = page.locator(".word", has_text="Americans")
    start = float(word.get_attribute("data-start"))
    page.evaluate(LIT)
    word.click()
    page.wait_for_function("lit.some(([word]) => word === 'ask')")
    page.evaluate("document.getElementById('audio').pause()")
    [first, at] = page.evaluate("lit[0]")
    assert first.startswith("Americans")
    assert 1.2 < start < 2.4 and start - 0.1 < at < start + 3

    # Arrow keys move among words, which are one stop of the Tab key; so does the waveform.
    word.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "ask"
    page.focus("#wave")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.getElementById('clock').innerText.startsWith('0:05')")

    page.click("#edit")
    field = page.locator(".field").first
    field.fill(field.text_content().replace("Americans", "dear Romans"))
    page.click("#edit")
    begin = page.locator(".word:text-is('dear')").get_attribute("data-start")
    assert abs(float(begin) - start) < 0.01, "new words lie where the old ones were"
    saved = {}
    for ending in ("txt", "srt", "vtt", "tsv", "json"):
        with page.expect_download() as download:
            page.click(f'.save[data-ending="{ending}"]')
        assert download.value.suggested_filename == f"jfk.{ending}"
        saved[ending] = Path(download.value.path()).read_text(encoding="utf-8")
        assert "my fellow dear Romans" in saved[ending]
    assert saved["srt"].startswith("1\n00:00:00,") and " --> 00:00:" in saved["srt"]
    assert saved["vtt"].startswith("WEBVTT\n\n00:00:00.")
    assert saved["tsv"].startswith("start\tend\ttext\n")
    found = json.loads(saved["json"])
    assert found["language"] == "en" and 10.9 < found["duration"] < 11.1
    words = [word for segment in found["segments"] for word in segment["words"]]
    assert [one["word"] for one in words[4:6]] == [" dear", " Romans"]
    assert all(a["end"] <= b["start"] + 0.01 for a, b in zip(words, words[1:], strict=False))

    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.wait_for_function("document.documentElement.dataset.offline === 'ready'")
    page.context.set_offline(True)
    page.reload()
    page.wait_for_function("!document.getElementById('main').inert")
    page.click("#sample")
    page.wait_for_function(COMPLETE)
    assert page.evaluate(HEARD) == SENTENCE
    page.context.set_offline(False)


def test_what_is_no_speech_is_said_in_words(
    pages: Any, serve: Any, hearing: Path, tmp_path: Path
) -> None:
    page = opened(pages, serve(hearing).url)

    def give(name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        page.set_input_files("#file", str(tmp_path / name))

    for name, content, words in (
        ("empty.wav", b"", "empty.wav is empty"),
        ("notes.mp3", b"no sound " * 500, "is no recording"),
        ("none.wav", wav(0), "none.wav"),
    ):
        give(name, content)
        page.wait_for_function(
            "(words) => document.getElementById('error-title').textContent.includes(words)",
            arg=words,
        )
        assert page.is_visible("#error")
    # Eight silent channels; the model has nothing to hear, so nothing is invented.
    give("silent.wav", wav(40_000, 3, channels=8))
    page.wait_for_function("document.getElementById('says').innerText.includes('silent from')")
    assert page.is_hidden("#error") and page.locator(".word").count() == 0


def test_stopped_work_is_resumed(pages: Any, serve: Any, hearing: Path, tmp_path: Path) -> None:
    """Three parts, of which the first alone has speech."""
    page = opened(pages, serve(hearing).url)
    speech = (hearing / "shared" / "jfk.wav").read_bytes()
    body = speech[speech.index(b"data") + 8 :]
    long = wav(16000 * 70)
    (tmp_path / "long.wav").write_bytes(long[:44] + body + long[44 + len(body) :])
    page.set_input_files("#file", str(tmp_path / "long.wav"))
    page.wait_for_function("document.getElementById('phase').textContent.length > 0")
    page.click("#stop")
    page.wait_for_function(IDLE)
    page.wait_for_function("document.getElementById('says').innerText.includes('Stopped')")
    page.click("#go")
    page.wait_for_function(COMPLETE)
    assert page.evaluate(HEARD) == SENTENCE
    assert page.is_hidden("#go"), "all of it is done"


def test_the_microphone_is_heard_as_one_speaks(listener: Any, serve: Any, hearing: Path) -> None:
    url = serve(hearing).url
    context = listener.new_context(permissions=["microphone"], service_workers="block")
    context.set_default_timeout(900_000)  # what a busy machine is behind is heard at the end
    page = context.new_page()
    page.goto(f"{url}whisper/?device=cpu")
    page.wait_for_function("!document.getElementById('main').inert")
    page.click("#record")
    page.wait_for_function("document.getElementById('phase').textContent === 'Listening'")
    # Words come while one speaks, first those that may still change.
    page.wait_for_function("document.getElementById('tentative')?.textContent.length > 0")
    assert "behind" in page.inner_text("#detail")
    page.wait_for_function(f"({HEARD})().includes('{SENTENCE[-36:]}')")
    page.click("#record")
    page.wait_for_function(COMPLETE)
    # A busy machine may lose some of the sound.
    assert SENTENCE[-36:] in page.evaluate(HEARD)
    assert page.is_enabled("#play"), "what was recorded can be played"
    context.close()

    refused = listener.new_context(permissions=[], service_workers="block")
    refused.set_default_timeout(120_000)
    page = refused.new_page()
    page.goto(f"{url}whisper/?device=cpu")
    page.wait_for_function("!document.getElementById('main').inert")
    page.click("#record")
    page.wait_for_selector("#error-title:text('The microphone is not allowed')")
    assert page.get_attribute("#record", "aria-pressed") == "false"
    refused.close()

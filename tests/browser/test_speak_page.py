"""The speak page: a text is heard as it is made, words light, phonemes are mended, WAV is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

TEXT = "A small light \U0001f56f burns. It is 9 inches long."
SPOKEN = "(text) => document.documentElement.dataset.spoken === text"
RESAID = "(phonemes) => document.documentElement.dataset.resaid === phonemes"

# Notes each word that is lit: a short one is over before a busy machine looks.
LIT = """() => {
  window.lit = new Set();
  const note = () => document.querySelectorAll(".word.lit").forEach((e) => lit.add(e.textContent));
  const all = { subtree: true, attributes: true, childList: true };
  new MutationObserver(note).observe(document.getElementById("reading"), all);
}"""


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a voice."""
    out = tmp_path_factory.mktemp("voices") / "site"
    build(out, [("piper-joe", resolve("piper-joe"))])
    return out


def pictures(studio: Any) -> None:
    """A text that was spoken on a desktop, and dark on a phone."""
    page = studio.open("speak/?device=cpu")
    page.click("#sample")
    page.click("#go")
    text = page.input_value("#text")
    page.wait_for_function(SPOKEN, arg=text, timeout=120_000)
    page.click("#play")
    studio.rest(page)
    studio.keep(page, "speak-desktop")
    page = studio.open("speak/?device=cpu", phone=True, color_scheme="dark")
    page.fill("#text", "The room is dark again.")
    page.click("#go")
    page.wait_for_function(SPOKEN, arg="The room is dark again.", timeout=120_000)
    studio.rest(page)
    studio.keep(page, "speak-phone-dark", whole=True)


def test_a_text_is_spoken_mended_and_saved(
    pages: Any, serve: Any, voices: Path, tmp_path: Path
) -> None:
    place = serve(voices)
    page = pages.open(f"{place.url}speak/?device=cpu", service_workers="allow")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    page.click("#go")
    page.wait_for_function("!document.getElementById('error').hidden")
    page.fill("#text", TEXT)
    assert page.is_disabled("#save"), "nothing is downloaded before it is asked for"
    page.evaluate(LIT)
    page.press("#text", "Control+Enter")
    page.wait_for_function(SPOKEN, arg=TEXT, timeout=400_000)
    words = page.eval_on_selector_all("#reading .word", "all => all.map(e => e.textContent)")
    assert words == ["A", "small", "light", "burns", "It", "is", "9", "inches", "long"]
    assert page.text_content("#reading") == TEXT
    assert page.is_hidden("#speaker-choice"), "this voice has one speaker"
    page.wait_for_function("lit.size > 0")

    with page.expect_download() as saved:
        page.click("#save")
    saved.value.save_as(tmp_path / "speech.wav")
    heard = rl.audio.load(tmp_path / "speech.wav")
    wanted = rl.pipeline("text-to-speech", "piper-joe", phonemizer="lexicon")(TEXT)
    assert heard.rate == 22050 and heard.count == len(wanted["audio"])
    assert abs(heard.samples - wanted["audio"]).max() < 2e-3

    # Other phonemes of the second sentence: the words keep their places, and light again.
    page.fill("#phonemes li:nth-child(2) textarea", "ɪt ɪz tˈɛn ˈɪntʃᵻz lˈɔːŋ.")
    page.press("#phonemes li:nth-child(2) textarea", "Enter")
    page.wait_for_function(RESAID, arg="ɪt ɪz tˈɛn ˈɪntʃᵻz lˈɔːŋ.", timeout=400_000)
    page.evaluate("lit.clear()")
    page.click("#reading .word:nth-of-type(9)")
    page.wait_for_function("lit.has('long')")
    page.fill("#phonemes li:nth-child(2) textarea", "ɪt ✗")
    page.press("#phonemes li:nth-child(2) textarea", "Enter")
    page.wait_for_function("document.getElementById('error').innerText.includes('✗')")

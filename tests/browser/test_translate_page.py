"""The translate page: Bergamot as one types, both directions, documents, offline, looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

MODELS = ("bergamot-en-pt", "bergamot-pt-en")
PARITY = Path(__file__).parents[1] / "parity" / "data" / "bergamot.json"
ROWS: dict[str, list[list[str]]] = json.loads(PARITY.read_text(encoding="utf-8"))
SHOWN = "(text) => document.documentElement.dataset.shown === text"
PIECES = """async (text) => {
  const { pieces } = await import("./shape.js");
  return pieces(text, "en").map(({ text, keep }) => (keep ? [text] : text));
}"""
DOCUMENT = "# The lamp\r\n\r\n  - It burns. It is 3 m high!\n```\nx = 1\n```\n---\n> 2. Good night."


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with the translators of both directions."""
    out = tmp_path_factory.mktemp("translators") / "site"
    build(out, [(name, resolve(name)) for name in MODELS])
    return out


def translated(page: Any, text: str) -> str:
    page.wait_for_function(SHOWN, arg=text, timeout=120_000)
    return str(page.evaluate("document.getElementById('target').textContent"))


def pictures(studio: Any) -> None:
    """The sample on a desktop, and dark on a phone."""
    page = studio.open("translate/?device=cpu")
    page.wait_for_function("!document.getElementById('swap').disabled")
    page.click("#sample")
    page.click("#go")
    text = page.input_value("#source")
    translated(page, text)
    studio.rest(page)
    studio.keep(page, "translate-desktop")
    page.emulate_media(color_scheme="dark")
    studio.keep(page, "translate-dark")
    page = studio.open("translate/?device=cpu", phone=True, color_scheme="dark")
    page.wait_for_function("!document.getElementById('swap').disabled")
    page.fill("#source", "Where is the nearest pharmacy?")
    page.click("#go")
    translated(page, "Where is the nearest pharmacy?")
    studio.rest(page)
    studio.keep(page, "translate-phone-dark", whole=True)


def test_it_translates_as_one_types_in_both_directions(
    pages: Any, serve: Any, translators: Path, tmp_path: Path
) -> None:
    place = serve(translators)
    page = pages.open(f"{place.url}translate/?device=cpu", service_workers="allow")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    assert [page.inner_text(f"#{which}") for which in ("from", "to")] == ["English", "Portuguese"]
    rows = [(row[0], row[1]) for row in ROWS["en-pt"][:12]]
    text = "\n".join(sentence for sentence, _ in rows)
    page.fill("#source", text)
    assert page.is_disabled("#save"), "nothing is downloaded before it is asked for"
    page.click("#go")
    assert translated(page, text) == "\n".join(answer for _, answer in rows)

    # Now a key is enough, and what was typed before a translation has come is dropped.
    page.fill("#source", "She put the candle")
    page.fill("#source", "Where is ")
    page.fill("#source", f"{rows[1][0]} ")
    assert translated(page, f"{rows[1][0]} ") == f"{rows[1][1]} "
    page.fill("#source", "  \n")
    page.wait_for_function("document.getElementById('save').disabled")

    file = tmp_path / "lamp.md"
    file.write_bytes(DOCUMENT.encode())
    page.set_input_files("#file", str(file))
    kept = ["# ", "\n\n  - ", " ", "\n```\nx = 1\n```\n---\n> 2. "]
    plain = DOCUMENT.replace("\r\n", "\n")
    cut = page.evaluate(PIECES, plain)
    assert [piece[0] for piece in cut if isinstance(piece, list)] == kept
    assert "".join(p if isinstance(p, str) else p[0] for p in cut) == plain
    long = page.evaluate(PIECES, "word " * 999 + "x" * 2000)
    assert max(len(piece) for piece in long if isinstance(piece, str)) <= 400
    made = translated(page, plain)
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "lamp.pt.md"
    assert Path(download.value.path()).read_text(encoding="utf-8") == made
    assert made.startswith("# ") and made.count("\n") == plain.count("\n")
    assert "\n```\nx = 1\n```\n---\n> 2. " in made

    page.click("#swap")
    page.wait_for_function("document.getElementById('from').innerText === 'Portuguese'")
    assert page.input_value("#source") == made
    sentence, *_, answer = ROWS["pt-en"][0]
    page.fill("#source", sentence)
    page.click("#go")  # this direction is not in the browser yet
    assert translated(page, sentence) == answer
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.wait_for_function("document.documentElement.dataset.offline === 'ready'")
    page.context.set_offline(True)
    page.click("#swap")
    page.fill("#source", rows[2][0])
    assert translated(page, rows[2][0]) == rows[2][1]
    page.context.set_offline(False)

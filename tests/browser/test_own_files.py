"""Files of any size and kind on every page: read in part, or refused by name and kind."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.warm_start

TEXT = "The rush is cut in summer and dried. It burns for half an hour.\n"
LARGE = 200_000_000  # bytes
# Until what is said of a picture has not been written for a while, and the page has been drawn.
RESTS = """() => new Promise((done) => {
  const tells = document.getElementById("tells");
  let timer = 0;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => requestAnimationFrame(() => { seen.disconnect(); done(); }), 300);
  };
  const seen = new MutationObserver(wait);
  seen.observe(tells, { childList: true, characterData: true, subtree: true });
  requestAnimationFrame(() => requestAnimationFrame(wait));
})"""


def png(width: int, height: int) -> bytes:
    """The header of a picture of so many pixels, and no pixels."""
    sides = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + sides + b"\x08\0\0\0\0" + bytes(40)


def document() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    return packed.getvalue()


# Name, bytes, and what it is in words; "" for a text.
FILES = {
    "cat.png": (png(30, 20), "is a PNG picture"),
    "cat.txt": (png(30, 20), "is a PNG picture"),  # by its bytes, not by its name
    "book.pdf": (b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n" * 9, "is a PDF document"),
    "model.gguf": (b"GGUF\3\0\0\0" + bytes(900), "is a GGUF model"),
    "letter.docx": (document(), "is a Word document"),
    "noise.txt": (bytes(range(256)) * 9, "is no "),
    "empty.txt": (b"", "is empty"),
    "plain.png": (TEXT.encode(), ""),
}
ENCODED = {
    "wide.txt": ("\ufeffThé light".encode("utf-16-le"), "Thé light", "UTF-16"),
    "other.txt": ("The light burns".encode("utf-16-be"), "The light burns", "UTF-16"),
    "old.txt": ("Une rue étroite".encode("latin-1"), "Une rue étroite", "Latin-1"),
    "marked.txt": ("\ufeffThe light".encode(), "The light", ""),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files, and a text of 200 MB."""
    folder = tmp_path_factory.mktemp("files")
    given = {name: row[0] for name, row in FILES.items()}
    for name, content in {**given, **{n: row[0] for n, row in ENCODED.items()}}.items():
        (folder / name).write_bytes(content)
    (folder / "large.txt").write_text(TEXT * (LARGE // len(TEXT) + 1), encoding="utf-8")
    (folder / "wall.png").write_bytes(png(20_000, 20_000))
    return folder


@pytest.fixture(scope="module")
def visit(module_pages: Any, module_serve: Any, site: Path) -> Any:
    """Opens a page of the site when its listeners are there."""
    place = module_serve(site)

    def open_(name: str) -> Any:
        page = module_pages.open(f"{place.url}{name}/")
        page.wait_for_function("!document.getElementById('main').inert")
        return page

    return open_


def refused(page: Any, field: str, path: Path, *words: str) -> None:
    """A file is refused by these words, in which its name is."""
    page.evaluate("document.getElementById('error').hidden = true")
    page.set_input_files(field, str(path))
    page.wait_for_selector("#error:visible")
    said = page.inner_text("#error")
    assert path.name in said and all(word in said for word in words), said


def test_texts_for_translation(visit: Any, files: Path) -> None:
    page = visit("translate")
    page.set_input_files("#file", str(files / "large.txt"))
    page.wait_for_function("document.getElementById('note').innerText.includes('first')")
    assert "200 MB" in page.inner_text("#note") and "large.txt" in page.inner_text("#note")
    kept = page.input_value("#source")
    assert 190_000 < len(kept) <= 200_000 and kept == (TEXT * 4000)[: len(kept)]
    for name, (_, words) in FILES.items():
        if words:
            refused(page, "#file", files / name, words)
            assert page.input_value("#source") == kept, "what was there stays"
    page.set_input_files("#file", str(files / "plain.png"))  # a text with another ending
    page.wait_for_function("(text) => document.getElementById('source').value === text", arg=TEXT)
    page.click(".undo button")
    assert page.input_value("#source") == kept, "a text that was replaced can be had back"
    for name, (_, text, encoding) in ENCODED.items():
        page.set_input_files("#file", str(files / name))
        page.wait_for_function("(t) => document.getElementById('source').value === t", arg=text)
        assert encoding in page.inner_text("#note") and page.is_hidden("#error")
    # A paste of any length, too.
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.setData("text/plain", "light ".repeat(1_000_000));
          const field = document.getElementById("source");
          field.value = "";
          field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
        }"""
    )
    assert len(page.input_value("#source")) <= 200_000 and "6,000,000" in page.inner_text("#note")


def test_texts_for_search(visit: Any, files: Path) -> None:
    page = visit("search")
    wrong = [name for name, (_, words) in FILES.items() if words]
    names = ["old.txt", *wrong[:3], "large.txt"]
    page.set_input_files("#files", [str(files / name) for name in names])
    page.wait_for_selector("#error:visible")
    said = page.inner_text("#error")
    assert all(name in said for name in wrong[:3]) and "a PDF document" in said
    assert "large.txt (200 MB) the first" in page.inner_text("#note")
    assert page.locator("#documents li").count() == 2
    assert 1000 < int(page.inner_text("#count").split()[0]) < 20_000
    page.set_input_files("#files", str(files / "plain.png"))
    page.wait_for_function(
        "document.getElementById('error').innerText.includes('no room for more text')"
    )
    page.click('[aria-label="Remove large.txt"]')
    assert page.locator("#documents li").count() == 1
    page.click(".undo button")
    assert page.locator("#documents li").count() == 2


@pytest.mark.parametrize("name", ["images", "detect", "segment"])
def test_pictures(visit: Any, files: Path, name: str) -> None:
    page = visit(name)
    for file, words in (
        ("cat.png", "is a PNG picture that is damaged"),
        ("book.pdf", "is a PDF document, not a picture"),
        ("plain.png", "is no picture"),
        ("large.txt", "is no picture"),
        ("empty.txt", "is empty"),
        ("wall.png", "20000 × 20000, 400 million pixels; at most 150 million"),
    ):
        refused(page, "#file", files / file, words)
    # A file that opens slowly does not replace the next one, nor does its error.
    page.evaluate(
        """() => {
          const decode = createImageBitmap;
          globalThis.createImageBitmap = async (file, ...options) => {
            if (file.name.startsWith("slow")) await new Promise((go) => (globalThis.go = go));
            return decode(file, ...options);
          };
        }"""
    )
    whole = page.evaluate(
        """async () => {
          const canvas = new OffscreenCanvas(30, 20);
          canvas.getContext("2d");
          return [...new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer())];
        }"""
    )
    for slow in (bytes(whole), png(40, 40)):
        page.evaluate("globalThis.go = null")
        page.set_input_files("#file", {"name": "slow.png", "mimeType": "", "buffer": slow})
        page.wait_for_function("Boolean(globalThis.go)")
        page.set_input_files("#file", {"name": "quick.png", "mimeType": "", "buffer": bytes(whole)})
        page.wait_for_function("document.getElementById('tells').innerText.startsWith('30 × 20')")
        # The picture's size changes the layout, after which Detect writes the words once more.
        page.evaluate(RESTS)
        page.evaluate("document.getElementById('tells').innerText = 'the quick one'")
        page.evaluate("new Promise((done) => { go(); setTimeout(done, 200); })")
        assert page.inner_text("#tells") == "the quick one" and page.is_hidden("#error")


def test_recordings(visit: Any, files: Path) -> None:
    page = visit("whisper")
    for file, words in (
        ("cat.png", "is a PNG picture, not a recording"),
        ("large.txt", "(200 MB) is no recording"),
        ("empty.txt", "is empty"),
    ):
        refused(page, "#file", files / file, words)


def test_what_is_no_model(visit: Any, files: Path) -> None:
    """Pages that load models, and the one that looks into them."""
    page = visit("chat")
    page.check('input[name="kind"][value="files"]', force=True)
    for name in ("cat.png", "large.txt", "empty.txt"):
        page.set_input_files("#model-files", str(files / name))
        page.wait_for_function(
            "(name) => document.getElementById('model-note').innerText.includes(name)", arg=name
        )
    page = visit("inspect")
    for file, words in (
        ("cat.png", "is a PNG picture, not a weight file"),
        ("large.txt", "is no weight file"),
        ("empty.txt", "is empty"),
    ):
        refused(page, "#files", files / file, words)


def test_what_is_learned(visit: Any, files: Path, tmp_path: Path) -> None:
    page = visit("train")
    page.wait_for_selector('html[data-state="ready"]')
    page.check('input[name="source"][value="text"]', force=True)
    page.set_input_files("#text-file", str(files / "large.txt"))
    page.wait_for_function("document.getElementById('text-note').innerText.includes('first')")
    assert len(page.input_value("#text")) <= 2_000_000
    page.set_input_files("#text-file", str(files / "cat.txt"))
    page.wait_for_function("document.getElementById('text-note').innerText.includes('PNG')")
    refused(page, "#open-weights", files / "large.txt", "(200 MB) is more than this page ever")
    refused(page, "#open-weights", files / "empty.txt", "is empty")
    page.check('input[name="source"][value="folders"]', force=True)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "notes.txt").write_text("nothing")
    page.set_input_files("#folder", str(tmp_path / "none"))
    page.wait_for_function("document.getElementById('folder-note').innerText.includes('no pict')")


def test_a_file_that_misses_its_place_does_not_replace_the_page(visit: Any) -> None:
    page = visit("translate")
    prevented = page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["x"], "x.html", { type: "text/html" }));
          return ["dragover", "drop"].map((kind) => !document.body.dispatchEvent(
            new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true })));
        }"""
    )
    assert prevented == [True, True]

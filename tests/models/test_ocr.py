"""Text from pictures: lines, order, turns and forms on real weights, the geometry by definition."""

from __future__ import annotations

import io
import json
import zlib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.models.hub.names import resolve
from rushlight.models.image import regions as areas
from rushlight.models.image.reading_order import reading_order
from rushlight.models.image.transcripts import pdf
from rushlight.models.layers.vision.reading import TextReader, windows
from rushlight.models.onnx.ocr import roles_of

PP, CRAFT = "pp-ocr-v4", "craft-crnn-en"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """The module of pages that a script draws."""
    import sys

    sys.path.insert(0, str(Path(__file__).parent))
    try:
        return import_module("written_pages")
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def reader() -> Any:
    return rl.models.load(PP)


def rgb(image: Any) -> Any:
    return np.asarray(image.convert("RGB"))


def labelled(mask: Any) -> set[frozenset[tuple[int, int]]]:
    """The regions of a mask by a search from each place."""
    left, found = {(int(y), int(x)) for y, x in np.argwhere(mask)}, set()
    while left:
        todo, region = [left.pop()], set()
        while todo:
            y, x = todo.pop()
            region.add((y, x))
            near = {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            todo += near
        found.add(frozenset(region))
    return found


def filled(ends: Any) -> frozenset[tuple[int, int]]:
    first, last = np.split(ends.astype(int), 2)
    runs = zip(first.tolist(), last.tolist(), strict=True)
    return frozenset((y, i) for (x, y), (end, _) in runs for i in range(x, end + 1))


def test_regions_are_those_of_a_search() -> None:
    draw = np.random.default_rng(5)
    for share in (0.1, 0.35, 0.6, 1.0):
        mask = draw.random((23, 31)) < share
        found = list(areas.regions(mask))
        assert {filled(ends) for ends in found} == labelled(mask)
        values = draw.random(mask.shape)
        for ends in found:
            inside = [values[place] for place in filled(ends)]
            np.testing.assert_allclose(areas.mean_of(values, ends), np.mean(inside))
    assert not list(areas.regions(np.zeros((3, 4))))


def test_the_least_rectangle_is_the_least_of_all_directions() -> None:
    draw = np.random.default_rng(6)
    for _ in range(20):
        points = draw.random((12, 2)) * (40, 12)
        quad = areas.least_rectangle(points)
        wide, high = areas.sides(quad)
        angles = np.linspace(0, np.pi / 2, 2000)
        turns = np.stack([np.cos(angles), np.sin(angles)], 1) @ points.T
        across = np.stack([-np.sin(angles), np.cos(angles)], 1) @ points.T
        least = (np.ptp(turns, axis=1) * np.ptp(across, axis=1)).min()
        assert least * 0.99 <= wide * high <= least * 1.0001
        larger = areas.grown(quad, 2.0)
        np.testing.assert_allclose(areas.sides(larger), (wide + 4, high + 4))
    line = areas.least_rectangle(np.array([[3.0, 4.0], [3.0, 4.0]]))
    assert areas.sides(line) == (0, 0)


def test_what_lies_in_corners_is_cut_upright() -> None:
    image = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
    box = np.array([[2.0, 1.0], [7.0, 1.0], [7.0, 4.0], [2.0, 4.0]])
    np.testing.assert_array_equal(areas.cut(image, box), image[1:4, 2:7])
    for turn in range(4):
        turned = areas.cut(image, np.roll(box, -turn, axis=0))
        np.testing.assert_array_equal(turned, np.rot90(image[1:4, 2:7], turn))
    # A trapezium: the projective map has the corners' pixels at its corners.
    smooth = np.repeat(np.mgrid[0:60, 0:80].sum(0)[..., None], 3, 2).astype(np.uint8)
    askew = np.array([[10.0, 10.0], [70.0, 14.0], [62.0, 50.0], [16.0, 40.0]])
    found = areas.cut(smooth, askew)
    assert abs(int(found[0, 0, 0]) - 20) <= 2 and abs(int(found[-1, -1, 0]) - 112) <= 3


def boxes(*rows: tuple[float, float, float, float]) -> Any:
    return np.array([[[a, b], [c, b], [c, d], [a, d]] for a, b, c, d in rows], float)


def test_columns_and_rows() -> None:
    left = [(0, 30 * i, 100, 30 * i + 12) for i in range(1, 5)]
    right = [(120, 30 * i + 5, 220, 30 * i + 17) for i in range(1, 5)]
    title, foot = (40, 0, 180, 14), (20, 170, 200, 182)
    page = boxes(*right, *left, foot, title)
    wanted = [[9], [4], [5], [6], [7], [0], [1], [2], [3], [8]]
    assert reading_order(page) == wanted
    for angle in (0.03, np.pi / 2, np.pi, -np.pi / 2 + 0.02):
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        assert reading_order(page @ turn) == wanted, angle
    # A table of names and prices is read by rows.
    names = [(0, 30 * i, 90, 30 * i + 12) for i in range(4)]
    prices = [(190, 30 * i + 1, 220, 30 * i + 13) for i in range(4)]
    assert reading_order(boxes(*names, *prices)) == [[i, i + 4] for i in range(4)]
    assert reading_order(np.empty((0, 4, 2))) == []


def test_windows_keep_the_ratio_and_cover_the_picture() -> None:
    for height, width in ((1, 1), (1, 900), (48, 20_000), (6000, 700), (3000, 4000), (191, 384)):
        image = np.zeros((height, width, 3), np.uint8)
        image[height // 2, width // 2] = 255
        pieces, size, (scale, offset) = windows(image, 736, 2000)
        seen = np.zeros(size, bool)
        for top, left, part in pieces:
            assert part.shape[0] % 32 == 0 and part.shape[1] % 32 == 0
            assert max(part.shape) <= 2300
            seen[top : top + part.shape[0], left : left + part.shape[1]] = True
        assert seen.all()
        place = scale * (width / 2, height / 2) + offset
        assert (place < size[::-1]).all() and (offset >= 0).all()


def test_letters_of_ctc_with_the_spaces_between() -> None:
    reader = object.__new__(TextReader)
    reader.alphabet = ["", "a", "b", " "]
    rows = [(0.9, 1, 0), (0.8, 1, 0), (0.7, 0, 0.15), (0.6, 0, 0.2), (0.9, 2, 0), (0.9, 0, 0),
            (0.5, 2, 0), (0.9, 0, 0)]  # fmt: skip
    found = reader.decoded(np.array(rows), 0.5)
    assert found.text == "a bb" and found.scores == [0.9, pytest.approx(0.32), 0.9, 0.5]
    assert found.places[0] == 0.125 and found.places[-1] == 1.0


def test_roles_by_names() -> None:
    v4 = ["ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer", "ch_ppocr_mobile_v2.0_cls_infer"]
    assert [*roles_of(v4)] == ["detector", "recognizer", "directions"]
    v5 = ["PP-OCRv5_mobile_rec.onnx", "PP-OCRv5_mobile_det.onnx"]
    assert {*roles_of(v5)} == {"detector", "recognizer"}
    assert not roles_of(["decoder_model", "encoder_model"]) and not roles_of(["det"])
    with pytest.raises(LoadError, match="both of OCR's detector"):
        roles_of([*v4, "det"])


@pytest.mark.native
@pytest.mark.parametrize("kind", ["receipt", "screenshot", "photograph", "columns"])
def test_pages_are_read(kind: str, reader: Any, pages: ModuleType) -> None:
    image, said = pages.DRAWN[kind]()
    found = rl.pipeline("ocr", reader)(rgb(image))
    assert pages.error_rate(said, found["text"]) <= 0.01, found["text"]
    assert found["rotation"] == 0 and (found["width"], found["height"]) == image.size
    assert [line["text"] for line in found["lines"]] and all(
        line["score"] > 0.5 and 0 <= line["box"]["xmin"] < line["box"]["xmax"] <= image.size[0]
        for line in found["lines"]
    )


@pytest.mark.native
def test_a_turned_page_is_read_in_its_own_pixels(reader: Any, pages: ModuleType) -> None:
    image, said = pages.screenshot()
    upright = rgb(image)
    pipe = rl.pipeline("ocr", reader)
    wanted = pipe(upright)["lines"][0]["corners"][0]
    for turns, rotation in ((1, 90), (2, 180), (3, 270)):
        found = pipe(np.ascontiguousarray(np.rot90(upright, turns)))
        assert pages.error_rate(said, found["text"]) <= 0.03, found["text"]
        assert found["rotation"] == rotation
        corner = found["lines"][0]["corners"][0]
        x, y = corner["x"], corner["y"]
        width, height = image.size
        back = {1: (width - y, x), 2: (width - x, height - y), 3: (y, height - x)}[turns]
        np.testing.assert_allclose(back, (wanted["x"], wanted["y"]), atol=6)


@pytest.mark.native
def test_long_lines_and_columns_of_upright_letters(reader: Any, pages: ModuleType) -> None:
    from PIL import Image, ImageDraw

    wide = Image.new("RGB", (9000, 60), "white")
    said = [f"number {i}" for i in range(0, 9000, 300)]
    for i, words in enumerate(said):
        ImageDraw.Draw(wide).text((20 + 300 * i, 12), words, fill="black", font=pages.font(28))
    pipe = rl.pipeline("ocr", reader)
    found = pipe(rgb(wide))
    assert pages.error_rate(" ".join(said), found["text"]) <= 0.03, found["text"]
    assert max(line["box"]["xmax"] for line in found["lines"]) > 8800
    sign = Image.new("RGB", (420, 420), "white")
    for row, letter in enumerate("MAKER"):
        ImageDraw.Draw(sign).text((190, 20 + 74 * row), letter, fill="black", font=pages.font(60))
    found = pipe(rgb(sign))
    assert found["text"].replace("\n", "") == "MAKER" and found["rotation"] == 0, found


@pytest.mark.native
def test_files_turned_by_exif_batches_and_nothing(
    reader: Any, pages: ModuleType, tmp_path: Path
) -> None:
    from PIL import Image

    image, said = pages.screenshot()
    lying = tmp_path / "lying.jpg"
    exif = Image.Exif()
    exif[274] = 6
    image.transpose(Image.Transpose.ROTATE_90).save(lying, exif=exif, quality=95)
    pipe = rl.pipeline("ocr", reader)
    blank = np.full((60, 200, 3), 255, np.uint8)
    turned, empty, dot = pipe([lying, blank, np.zeros((1, 1, 3), np.uint8)])
    assert pages.error_rate(said, turned["text"]) <= 0.03 and turned["width"] == image.size[0]
    for nothing in (empty, dot):
        assert nothing["lines"] == [] and nothing["text"] == ""
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(FormatError, match="is no image"):
        pipe(broken)
    with pytest.raises(ValueError, match="box_threshold is 1"):
        pipe(blank, box_threshold=1.0)


@pytest.mark.native
def test_the_command_writes_every_form(pages: ModuleType, tmp_path: Path, capfdbinary: Any) -> None:
    image, said = pages.screenshot()
    file = tmp_path / "page.png"
    image.save(file)
    heard = {}
    for form in ("text", "json", "hocr", "pdf"):
        assert run(["ocr", str(file), "--format", form]) == 0
        heard[form] = capfdbinary.readouterr().out
    assert pages.error_rate(said, heard["text"].decode()) <= 0.03
    assert json.loads(heard["json"])["lines"][0]["words"]
    page = ElementTree.fromstring(heard["hocr"].split(b"<!DOCTYPE html>\n")[1])
    words = [e for e in page.iter() if e.get("class") == "ocrx_word"]
    assert words and all("bbox" in str(e.get("title")) for e in words)
    assert heard["pdf"].startswith(b"%PDF-1.5")


def test_a_pdf_has_its_words_and_its_places() -> None:
    corners = [{"x": x, "y": y} for x, y in ((10, 10), (90, 10), (90, 30), (10, 30))]
    letters = "".join(chr(0x4E00 + i) for i in range(300))
    said = ("caf\u00e9", letters)
    words = [{"text": word, "score": 1.0, "corners": corners} for word in said]
    text = " ".join(said)
    line = {"text": text, "score": 1.0, "corners": corners, "words": words}
    leaf = {"lines": [line], "text": text, "rotation": 90, "width": 100, "height": 40}
    made = pdf([leaf], [zlib.compress(bytes(100 * 40 * 3))])
    table = int(made.rsplit(b"startxref\n", 1)[1].split()[0])
    assert made[table : table + 4] == b"xref"
    rows = made[table:].split(b"\n")[3:]
    for number, row in enumerate(r for r in rows if r.endswith(b"n ")):
        at = int(row.split()[0])
        assert made[at:].startswith(f"{number + 1} 0 obj".encode())
    assert b"<e9> <00e9>" in made or b"<00e9>" in made
    assert b"/Rotate 90" in made and made.count(b"/Subtype /Type3") == 2


@pytest.mark.native
def test_files_without_letters_are_refused(tmp_path: Path) -> None:
    from onnx import load, save

    folder = resolve(PP)
    for file in folder.glob("*.onnx"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    [file] = tmp_path.glob("*rec*.onnx")
    model = load(io.BytesIO(file.read_bytes()))
    letters = next(p.value for p in model.metadata_props if p.key == "character")
    del model.metadata_props[:]
    save(model, str(file))
    with pytest.raises(LoadError, match="no letters"):
        rl.models.load(tmp_path)
    (tmp_path / "keys.txt").write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(FormatError, match="2 letters, the recognizer 6625 classes"):
        rl.models.load(tmp_path)
    (tmp_path / "keys.txt").write_text(letters, encoding="utf-8")
    assert len(rl.models.load(tmp_path).alphabet) == 6625


@pytest.mark.native
def test_craft_and_a_crnn(pages: ModuleType) -> None:
    model = rl.models.load(CRAFT)
    draw = np.random.default_rng(21)
    pixels = draw.standard_normal((1, 3, 64, 96)).astype(np.float32)
    lines = np.clip(draw.standard_normal((2, 1, 64, 128)), -1, 1).astype(np.float32)
    golden = load_safetensors(Path(__file__).parent / "data" / "craft_crnn.safetensors")
    with rl.no_grad():
        found = {"maps": model.maps(rl.tensor(pixels)), "letters": model.letters(rl.tensor(lines))}
    for name, value in golden.items():
        wanted = value.numpy()
        worst = np.abs(found[name].numpy() - wanted).max() / np.abs(wanted).max()
        assert worst <= 1e-4, (name, worst)
    image, said = pages.receipt()
    read = rl.pipeline("ocr", model)(rgb(image))
    assert pages.error_rate(said, read["text"]) <= 0.01, read["text"]

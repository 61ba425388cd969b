"""The task ocr: what is written in an image, line by line, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.image.reading_order import reading_order, turn_of
from rushlight.models.image.regions import cut, sides
from rushlight.models.image.transcripts import FORMATS, written
from rushlight.models.layers.vision.reading import divided
from rushlight.models.tasks.object_detection import named_box
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

_TALL = 1.5  # a line that is so many times as high as it is wide lies on its side
_SURE, _TURNED = 0.9, 0.9  # of letters; of a line that it is upside down


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"text", "lines", "rotation", "width", "height"} of each image; a list for several.

    lines, in reading order: {"text", "score", "box", "corners", "words"}. corners: four {"x", "y"}
    clockwise, the first above the line's beginning; box: what they lie in; both in the image's own
    pixels. words: {"text", "score", "corners"}. rotation: by how many degrees clockwise the image
    is to be turned to be upright: 0, 90, 180 or 270.
    """
    pixels, pages = load_all(images, shrink=True), []
    for image in pixels:
        pages.append((yield from page_of(model, image, options)))
        yield Progress("read", len(pages), len(pixels))
    if options["format"] == "json":
        return drawable(images, pixels, pages)
    several = isinstance(images, list | tuple)
    return written(options["format"], pages if several else pages[:1], pixels, several)


def page_of(model: Any, image: Any, options: Mapping[str, Any]) -> Run:
    """The result of one image (height, width, 3)."""
    corners = yield from model.find(image, options["box_threshold"])
    # Of a line on its side the beginning is taken to be above: it is read downwards.
    tall = np.array([sides(quad)[1] > _TALL * sides(quad)[0] for quad in corners], bool)
    corners[tall] = np.roll(corners[tall], -1, axis=1)
    lines = [cut(image, quad) for quad in corners]
    flipped = yield from _flipped(model, lines, corners, tall)
    corners[flipped] = np.roll(corners[flipped], -2, axis=1)
    lines = [line[::-1, ::-1] if flip else line for line, flip in zip(lines, flipped, strict=True)]
    read = yield from model.read(lines)
    lying = yield from _upright_letters(model, lines, read, tall)
    kept = [
        i
        for i, found in enumerate(read)
        if found.text.strip() and found.score > options["threshold"]
    ]
    quads = corners[kept]
    rows = reading_order(quads)
    order = [kept[i] for row in rows for i in row]
    rotation = 0
    if kept:
        # A column of upright letters is read downwards on an upright page.
        rotation = 0 if lying[kept].mean() > 0.5 else (4 - turn_of(quads)) % 4 * 90
    return {
        "text": "\n".join(" ".join(read[kept[i]].text.strip() for i in row) for row in rows),
        "lines": [_line(read[i], corners[i]) for i in order],
        "rotation": rotation,
        "width": image.shape[1],
        "height": image.shape[0],
    }


def _flipped(model: Any, lines: Any, corners: Any, tall: Any) -> Run:
    """Whether each line is upside down.

    The lines of a page that lie in one way are mostly turned alike: one that seems not to be is
    read in both ways.
    """
    flipped = np.zeros(len(lines), bool)
    if not lines:
        return flipped
    doubtful = np.zeros(len(lines), bool)
    if model.has_directions:
        flipped = (yield from model.upside_down(lines)) > _TURNED
    lengths = np.array([sides(quad)[0] for quad in corners])
    for kind in (tall, ~tall):
        most = lengths[kind & flipped].sum() > lengths[kind].sum() / 2
        doubtful |= kind & (flipped != most)
    if not model.has_directions:  # the longest lines tell
        longest = np.argsort(-lengths)[:5]
        one = yield from model.read([lines[i] for i in longest])
        other = yield from model.read([lines[i][::-1, ::-1] for i in longest])
        flipped[:] = sum(r.score for r in other) > sum(r.score for r in one)
        doubtful[:] = False
    which = np.nonzero(doubtful)[0]
    if len(which):
        one = yield from model.read([lines[i] for i in which])
        other = yield from model.read([lines[i][::-1, ::-1] for i in which])
        flipped[which] = [b.score > a.score for a, b in zip(one, other, strict=True)]
    return flipped


def _upright_letters(model: Any, lines: Any, read: list[Any], tall: Any) -> Run:
    """Whether each line is a column of upright letters; these are read anew, side by side."""
    lying = np.zeros(len(lines), bool)
    which = [i for i in np.nonzero(tall)[0] if read[i].score < _SURE]
    for turned in (_side_by_side, lambda line: np.rot90(line, -1)):  # or it is one letter
        found = yield from model.read([turned(lines[i]) for i in which])
        for i, letters in zip(which, found, strict=True):
            if letters.score > read[i].score:
                read[i], lying[i] = letters, True
    return lying


def _side_by_side(line: Any) -> Any:
    """A column of letters that was turned to lie as a line: the letters upright in a row."""
    side = line.shape[0]
    letters = divided(line, max(1, round(line.shape[1] / side)), 0.3)
    cells = [np.rot90(letter, -1) for letter in letters]
    high = max(cell.shape[0] for cell in cells)
    color = np.median(line.reshape(-1, 3), axis=0).astype(np.uint8)
    row = np.empty((high, side * len(cells), 3), np.uint8)
    row[:] = color
    for i, cell in enumerate(cells):
        top = (high - cell.shape[0]) // 2
        row[top : top + cell.shape[0], i * side : (i + 1) * side] = cell
    return row


def _line(found: Any, corners: Any) -> dict[str, Any]:
    low, high = corners.min(0), corners.max(0)
    return {
        "text": found.text.strip(),
        "score": found.score,
        "box": named_box([*low, *high]),
        "corners": _points(corners),
        "words": _words(found, corners),
    }


def _points(corners: Any) -> list[dict[str, float]]:
    return [{"x": round(float(x), 1), "y": round(float(y), 1)} for x, y in corners]


def _words(found: Any, corners: Any) -> list[dict[str, Any]]:
    """The words of a line: each reaches to the middle between its end and its neighbour's."""
    words, start, text = [], 0, found.text
    places = [0.0, *found.places, 1.0]
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        end = start
        while end < len(text) and not text[end].isspace():
            end += 1
        # places[i + 1] is that of letter i.
        low = (places[start] + places[start + 1]) / 2 if start else 0.0
        high = (places[end] + places[end + 1]) / 2 if end < len(text) else 1.0
        a, b, c, d = corners
        quad = np.array(
            [a + (b - a) * low, a + (b - a) * high, d + (c - d) * high, d + (c - d) * low]
        )
        words.append(
            {
                "text": text[start:end],
                "score": float(np.mean(found.scores[start:end])),
                "corners": _points(quad),
            }
        )
        start = end
    return words


def _refuse(options: Mapping[str, Any]) -> None:
    for name in ("threshold", "box_threshold"):
        if not 0 <= options[name] < 1:
            raise ValueError(f"ocr: {name} is {options[name]}; it must be at least 0 and below 1")


TASK = Task(
    name="ocr",
    summary="Read the text of an image, with the place of every line.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("threshold", "float", 0.5, "The score of its letters from which a line is told."),
        Option("box_threshold", "float", 0.5, "How sure it is at least that a place holds text."),
        Option("format", "text", "json", "The form of the result.", choices=FORMATS),
    ),
    refuse=_refuse,
    command=Command("ocr", "pp-ocr-v4", {"format": "text"}),
)

"""What Florence-2 writes of places: boxes, polygons and texts, in pixels of the picture's file.

Places are tokens `<loc_N>`, of a thousand to each side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

PROMPTS = {
    "<OCR>": "What is the text in the image?",
    "<OCR_WITH_REGION>": "What is the text in the image, with regions?",
    "<CAPTION>": "What does the image describe?",
    "<DETAILED_CAPTION>": "Describe in detail what is shown in the image.",
    "<MORE_DETAILED_CAPTION>": "Describe with a paragraph what is shown in the image.",
    "<OD>": "Locate the objects with category name in the image.",
    "<DENSE_REGION_CAPTION>": "Locate the objects in the image, with their descriptions.",
    "<REGION_PROPOSAL>": "Locate the region proposals in the image.",
    "<CAPTION_TO_PHRASE_GROUNDING>": "Locate the phrases in the caption: {input}",
    "<REFERRING_EXPRESSION_SEGMENTATION>": "Locate {input} in the image with mask",
    "<REGION_TO_SEGMENTATION>": "What is the polygon mask of region {input}",
    "<OPEN_VOCABULARY_DETECTION>": "Locate {input} in the image.",
    "<REGION_TO_CATEGORY>": "What is the region {input}?",
    "<REGION_TO_DESCRIPTION>": "What does the region {input} describe?",
    "<REGION_TO_OCR>": "What text is in the region {input}?",
}
_BOXES = ("<OD>", "<DENSE_REGION_CAPTION>", "<REGION_PROPOSAL>")
_SHAPES = ("<REFERRING_EXPRESSION_SEGMENTATION>", "<REGION_TO_SEGMENTATION>")
_BINS = 1000
_LOC = r"<loc_(\d+)>"
_NAME = re.compile(r"^\s*(.*?)(?=</?od>|</?box>|</?bbox>|<loc_)")
_NAME_OF_SHAPE = re.compile(r"^\s*(.*?)(?=</?od>|</?box>|</?bbox>|<loc_|<poly>)")


def task_of(text: str) -> str:
    """The token of a task in a prompt; "" for none."""
    return next((token for token in PROMPTS if token in text), "")


def prompt_of(text: str) -> str:
    """The prompt that a text with the token of a task stands for; ValueError for words beside one
    that takes none, or for none where it takes some.
    """
    task = task_of(text)
    if not task:
        return text
    said, words = PROMPTS[task], text.replace(task, "").strip()
    if bool(words) != ("{input}" in said):
        raise ValueError(f"prompt {text!r}: {task} takes {'no' if words else 'further'} words")
    return said.replace("{input}", words)


def answer(text: str, task: str, size: tuple[int, int], config: Mapping[str, Any]) -> Any:
    """What an answer says: a text; or {"bboxes", "labels"}, {"quad_boxes", "labels"} of texts,
    {"polygons", "labels"}, or, with open vocabulary, both.

    text: with its special tokens. size: (height, width) of the file. config: rules of parsing that
    a checkpoint has.
    """
    for token in ("<s>", "</s>", "<pad>"):
        text = text.replace(token, "")
    if task == "<OCR_WITH_REGION>":
        pattern = config.get("ocr", {}).get("PATTERN") or r"(.+?)" + _LOC * 8
        least = config.get("ocr", {}).get("AREA_THRESHOLD", 0.0) * size[0] * size[1]
        found = [(said, _pixels(places, size)) for said, *places in re.findall(pattern, text)]
        found = [(said, quad) for said, quad in found if not least or _area(quad) >= least]
        return {"quad_boxes": [q for _, q in found], "labels": [said.strip() for said, _ in found]}
    if task == "<CAPTION_TO_PHRASE_GROUNDING>":
        banned = config.get("phrase_grounding", {}).get("banned_grounding_tokens", ())
        return _named("bboxes", [b for b in _boxes(text, size) if b[2] not in banned])
    if task in _BOXES:
        return _named("bboxes", _boxes(text, size, task == "<REGION_PROPOSAL>"))
    if task in _SHAPES:
        return _named("polygons", _shapes(text, size, True))
    if task == "<OPEN_VOCABULARY_DETECTION>":
        shapes = "<poly>" in text
        boxes = _named("bboxes", [] if shapes else _boxes(text, size), "bboxes_labels")
        return boxes | _named("polygons", _shapes(text, size) if shapes else [], "polygons_labels")
    return text.strip()


def _named(key: str, found: list[Any], labels: str = "labels") -> dict[str, Any]:
    return {key: [row[0] for row in found], labels: [row[1] for row in found]}


def _pixels(places: Iterable[Any], size: tuple[int, int]) -> list[int]:
    """Numbers of places, x and y in turn, as pixels: the middle of a place."""
    sides = (size[1] / _BINS, size[0] / _BINS)
    return [int((int(place) + 0.5) * sides[i % 2]) for i, place in enumerate(places)]


def _area(quad: list[int]) -> float:
    # As the reference adds it: the last side, back to the first corner, is left out.
    x, y = quad[0::2], quad[1::2]
    return 0.5 * abs(sum(x[i] * y[i + 1] - x[i + 1] * y[i] for i in range(3)))


def _boxes(text: str, size: tuple[int, int], nameless: bool = False) -> list[Any]:
    """(box, label, the whole label) of each; nameless: they have no words before them."""
    found: list[Any] = []
    for phrase in re.findall(rf"{'' if nameless else '[^<]+'}(?:<loc_\d+>){{4,}}", text):
        name = _NAME.search(phrase.replace("<ground>", "", 1).replace("<obj>", "", 1))
        said = name.group().strip() if name else ""
        label = said.encode("ascii", "ignore").decode()
        found += [(_pixels(box, size), label, said) for box in re.findall(_LOC * 4, phrase)]
    return found


def _shapes(text: str, size: tuple[int, int], nameless: bool = False) -> list[Any]:
    """(polygons, label) of each."""
    token = r"(?:<loc_\d+>|<sep>|<poly>|</poly>)"
    pattern = rf"(?:{token}{{4,}})" if nameless else rf"([^<]+{token}{{4,}})"
    found: list[Any] = []
    for phrase in re.findall(pattern, text):
        name = _NAME_OF_SHAPE.search(re.sub(r"^<loc_\d+>", "", phrase, count=1))
        if not name:
            continue
        both = "<poly>" in phrase and "</poly>" in phrase
        for shape in re.findall(r"<poly>(.*?)</poly>", phrase) if both else [phrase]:
            polygons = []
            for run in re.findall(r"((?:<loc_\d+>)+)(?:<sep>|$)", shape):
                places = re.findall(_LOC, run)
                polygons.append(_pixels(places[: len(places) // 2 * 2], size))
            if polygons:
                found.append((polygons, name.group().strip()))
    return found

"""Boxes and points that an answer about a picture names, in pixels of the picture.

Three forms: objects of JSON with `bbox_2d` or `point_2d` (Qwen2.5-VL, Qwen3-VL and others), pairs
(x, y) between <|box_start|> and <|box_end|> (Qwen2-VL), and tokens <loc0000> to <loc1023> of y and
x (PaliGemma).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

# What numbers count: thousandths of the picture's sides, or pixels as the model reads them.
Scale = Literal["thousandths", "pixels"]
_FENCE = re.compile(r"```(?:json)?\s*(.*?)(?:```|$)", re.S)
_ROW = re.compile(r"\{[^{}]{0,2000}\}")
_KEYS = ("bbox_2d", "bbox", "box_2d", "box", "point_2d", "point")
_NUMBER = r"\s*(-?\d{1,6}(?:\.\d{1,6})?)\s*"
_PAIRS = re.compile(
    rf"(?:<\|object_ref_start\|>([^<]{{0,200}})<\|object_ref_end\|>\s*)?<\|(?:box|point)_start\|>"
    rf"\({_NUMBER},{_NUMBER}\)(?:,\({_NUMBER},{_NUMBER}\))?<\|(?:box|point)_end\|>"
)
_LOCS = re.compile(r"<loc(\d{4})><loc(\d{4})><loc(\d{4})><loc(\d{4})>\s*([^<;]{0,200})")
_LOC_STEPS = 1024


def places_in(
    text: str, size: tuple[int, int], read: tuple[int, int], scale: Scale
) -> list[dict[str, Any]]:
    """The boxes and points of an answer: {"label", "box": {xmin, ymin, xmax, ymax}} or "point".

    text: the answer, with its special tokens. size: (height, width) of the picture in pixels, which
    the results count; read: as the model has it. scale: what the answer's numbers count. Places
    outside of the picture are moved to its border. It raises nothing: other words give no place.
    """
    found: list[dict[str, Any]] = []
    for label, numbers, steps in _named(text):
        if steps:
            across = down = float(steps)
        else:
            down, across = (1000.0, 1000.0) if scale == "thousandths" else map(float, read)
        shares = [n / (across if i % 2 == 0 else down) for i, n in enumerate(numbers)]
        sides = [size[1], size[0]] * 2
        pixels = [
            round(min(max(share, 0.0), 1.0) * side, 1)
            for share, side in zip(shares, sides, strict=False)
        ]
        if len(pixels) == 2:
            found.append({"label": label, "point": {"x": pixels[0], "y": pixels[1]}})
        else:
            (left, right), (top, low) = sorted(pixels[::2]), sorted(pixels[1::2])
            box = {"xmin": left, "ymin": top, "xmax": right, "ymax": low}
            found.append({"label": label, "box": box})
    return found


def _named(text: str) -> Iterator[tuple[str, list[float], int]]:
    """(label, numbers x, y or x, y, x, y, steps of a side or 0) of each place."""
    for match in _LOCS.finditer(text):
        top, left, low, right = (float(match[i]) for i in range(1, 5))
        yield match[5].strip(), [left, top, right, low], _LOC_STEPS
    for match in _PAIRS.finditer(text):
        numbers = [float(match[i]) for i in range(2, 6) if match[i] is not None]
        yield (match[1] or "").strip(), numbers, 0
    fenced = _FENCE.search(text)
    for row in _rows(fenced[1] if fenced else text):
        key = next((key for key in _KEYS if key in row), None)
        given = row[key] if key is not None else None
        plain = isinstance(given, list) and all(
            isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < 1e6 for n in given
        )
        if plain and given is not None and len(given) in (2, 4):
            words = row.get("label", row.get("text_content", row.get("text", "")))
            yield str(words)[:200], [float(n) for n in given], 0


def _rows(text: str) -> Iterator[Mapping[str, Any]]:
    """The objects of JSON in a text, one by one, as an answer may be cut off."""
    for match in _ROW.finditer(text):
        if not any(f'"{key}"' in match[0] for key in _KEYS):
            continue
        try:
            row = json.loads(match[0])
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row

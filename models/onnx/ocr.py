"""PP-OCR of ONNX files: a graph that finds lines, one that reads them, one that says how they lie.

The detector is one of differentiable binarization (Liao et al., 2020), the recognizer gives classes
for CTC. Versions 3 to 6 have these files; the letters are in the recognizer's metadata, under
`character`, or in a file of text beside it, one a line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.onnx import OnnxModule
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.image.regions import grown, least_rectangle, mean_of, regions, sides
from rushlight.models.layers.vision.reading import Run, TextReader, normalized, stitched, windows
from rushlight.models.onnx.graph import GraphConfig, GraphModel, Graphs

Array = npt.NDArray[Any]
# The parts of file names that tell which graph a file is.
ROLES = {"detector": "det", "recognizer": "rec", "directions": "cls"}
_TEXT, _GROWN, _LEAST, _MOST_LINES = 0.3, 1.6, 3, 2000
_DIRECTION_WIDTH = 192


def roles_of(names: Sequence[str]) -> dict[str, str]:
    """The names of files or graphs by their roles; {} unless one finds lines and one reads them.

    LoadError for several of one role.
    """
    found: dict[str, str] = {}
    for name in names:
        told = [role for role, part in ROLES.items() if _has(part, name)]
        if len(told) != 1:
            continue
        if told[0] in found:
            raise LoadError(
                f"{found[told[0]]} and {name} are both of OCR's {told[0]}; keep one in the folder"
            )
        found[told[0]] = name
    return found if {"detector", "recognizer"} <= found.keys() else {}


def _has(part: str, name: str) -> bool:
    return re.search(rf"(^|[^a-z]){part}([^a-z]|$|ect|ogn)", name.lower()) is not None


class PaddleReader(GraphModel, TextReader):
    """Finds and reads the lines of pictures by two or three graphs, see `ROLES`."""

    def __init__(self, graphs: Graphs) -> None:
        super().__init__(GraphConfig(model_type="pp-ocr"), graphs)
        self.has_directions = "directions" in graphs
        height = _size(self.graph("recognizer"), 2)
        self.line_height = height or 48

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the letters. LoadError where there are none."""
        told = self.graph("recognizer").metadata.get("character")
        lists = sorted(name for name in files if name.endswith(".txt"))
        if told is None and not lists:
            raise LoadError(
                f"{self.graph('recognizer').name} has no letters in its metadata (`character`)",
                hint="put their file beside it, such as ppocr_keys_v1.txt or ppocrv5_dict.txt",
            )
        text = files[lists[0]].decode("utf-8-sig") if told is None else told
        letters = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
        classes = next((n for n in [_size(self.graph("recognizer"), 2, "out")] if n), None)
        spare = None if classes is None else classes - 1 - len(letters)
        if spare is not None and not 0 <= spare <= 1:
            raise FormatError(
                f"{lists[0] if told is None else 'the metadata'} has {len(letters)} letters, the "
                f"recognizer {classes} classes; these are the letters, the blank and the space"
            )
        self.alphabet = ["", *letters, *([" "] if spare != 0 else [])]

    def find(self, image: Array, threshold: float) -> Run:
        """The corners of lines: what a map of text shows, as rectangles that are grown again."""
        pieces, size, (scale, offset) = windows(image, 736, self.most)
        maps = []
        for top, left, seen in pieces:
            given = seen[None, :, :, ::-1].transpose(0, 3, 1, 2) / np.float32(127.5) - 1
            with no_grad():
                out = self.graph("detector")(from_numpy(given).to(self.device))
            maps.append((top, left, np.asarray((yield out.float().readback()))[0]))
        text = stitched(maps, size)[0]
        limits = np.array(image.shape[1::-1])
        corners = [
            np.clip(np.rint((quad - offset) / scale), 0, limits)
            for quad in rectangles(text, threshold)
        ]
        kept = [quad for quad in corners if min(sides(quad)) > 3]
        return np.array(kept).reshape(-1, 4, 2)

    def strips(self, lines: Sequence[Array], width: int) -> Array:
        """Lines as float32 (n, 3, height, width)."""
        return normalized(lines, self.line_height, width)

    def letters(self, strips: Tensor) -> Tensor:
        """Probabilities (batch, steps, classes)."""
        found: Tensor = self.graph("recognizer")(strips)
        return found

    def upside_down(self, lines: Sequence[Array]) -> Run:
        """The second class of the graph of directions."""
        batch = normalized(lines, 48, _DIRECTION_WIDTH)
        found = []
        for start in range(0, len(batch), 16):
            part = batch[start : start + 16]
            with no_grad():
                out = self.graph("directions")(from_numpy(part).to(self.device))
            found.append(np.asarray((yield out.float().readback()))[:, 1])
        return np.concatenate(found)


def rectangles(text: Array, threshold: float) -> list[Array]:
    """The rectangles (4, 2) of lines in a map (height, width) of how likely there is text."""
    mask = text > _TEXT
    wider = mask.copy()
    wider[1:] |= mask[:-1]
    wider[:, 1:] |= wider[:, :-1].copy()
    found = []
    for points in regions(wider):
        quad = least_rectangle(points)
        wide, high = sides(quad)
        if min(wide, high) < _LEAST or mean_of(text, points) < threshold:
            continue
        # The map shows a line shrunk by a share of its area; the reverse (Vatti's clipping).
        found.append(grown(quad, wide * high * _GROWN / (2 * (wide + high))))
        if len(found) == _MOST_LINES:
            break
    return found


def read_by(graphs: Graphs, files: Mapping[str, bytes]) -> PaddleReader:
    """The model of graphs by their roles; files: the small ones beside.

    LoadError where there are no letters.
    """
    model = PaddleReader(graphs)
    model.configure(files)
    model.eval()
    return model


def _size(graph: OnnxModule, dim: int, side: str = "in") -> int | None:
    """A size that the file declares of its first input or output, if it does."""
    info = (graph.inputs if side == "in" else graph.outputs)[0]
    shape = () if info.type is None else info.type.shape or ()
    size = shape[dim] if len(shape) > dim else None
    return size if isinstance(size, int) else None

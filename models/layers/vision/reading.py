"""TextReader: models that find the lines of a picture and read each as letters by CTC."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.functional.joining import stack
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.image.resize import resize
from rushlight.models.model import Model

Array = npt.NDArray[Any]
Run = Generator[Any, Any, Any]  # yields readbacks, whose values it is sent
BATCH = 8  # lines that are read at once
LONGEST = 32  # times its height that a line is wide at most; longer ones are read in pieces
_SPACE = 0.2  # the share of a space between letters from which it is told
LARGER = 3  # times that a picture is made larger at most
OVERLAP = 256  # of the windows in which a long picture is seen


@dataclass
class Letters:
    """What a line says: its letters, how sure each is, and where: shares of the line's length."""

    text: str = ""
    scores: list[float] = field(default_factory=list)
    places: list[float] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The mean of the letters' scores."""
        return float(np.mean(self.scores)) if self.scores else 0.0


class TextReader(Model):
    """Finds lines in pictures and reads them. alphabet: a letter for each class; "" is the blank.

    line_height: of the lines that `letters` takes; narrowest: the least width of these.
    most: the longest side, in pixels, of what `find` looks at in one piece. has_directions: whether
    `upside_down` tells of lines whether they are turned by 180 degrees.
    """

    tasks = ("ocr",)
    alphabet: Sequence[str] = ()
    line_height, narrowest, most = 48, 320, 2000
    has_directions = False

    def find(self, image: Array, threshold: float) -> Run:
        """The corners (n, 4, 2) of the lines of a picture (height, width, 3), in its pixels.

        threshold: how sure it is at least that there is text. It yields readbacks.
        """
        raise NotImplementedError

    def strips(self, lines: Sequence[Array], width: int) -> Array:
        """Lines (height, width, 3) as what `letters` takes: of its height and one width."""
        raise NotImplementedError

    def letters(self, strips: Tensor) -> Tensor:
        """Probabilities (batch, steps, classes) of the classes of lines."""
        raise NotImplementedError

    def upside_down(self, lines: Sequence[Array]) -> Run:
        """The probability (n,) of each line that it is turned by 180 degrees."""
        raise NotImplementedError

    def read(self, lines: Sequence[Array]) -> Run:
        """The Letters of lines (height, width, 3) that are upright; it yields readbacks."""
        if not lines:
            return []
        pieces, owners = [], []
        for number, line in enumerate(lines):
            parts = divided(line, -(-line.shape[1] // (LONGEST * line.shape[0])))
            pieces += parts
            owners += [(number, line.shape[1])] * len(parts)
        ratios = np.array([piece.shape[1] / piece.shape[0] for piece in pieces])
        order = np.argsort(ratios, kind="stable")
        read: dict[int, Letters] = {}
        first = len(order) % BATCH  # the shortest lines make the batch that is not full
        starts = [*([0] if first else []), *range(first, len(order), BATCH)]
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            chosen = order[start:end]
            width = _rounded(max(self.narrowest, self.line_height * ratios[chosen].max()))
            batch = self.strips([pieces[i] for i in chosen], width)
            with no_grad():
                shares = self.letters(from_numpy(batch).to(self.device))
                likely, best = shares.max(-1)
                space = shares[..., self.space] if self.space else likely * 0
                told = stack([x.float() for x in (likely, best, space)], -1)
            values = np.asarray((yield told.readback()))
            for i, row in zip(chosen, values, strict=True):
                shown = min(1.0, self.line_height * ratios[i] / width)
                read[int(i)] = self.decoded(row, shown)
        results: list[Letters] = [Letters() for _ in lines]
        begins = dict.fromkeys(range(len(lines)), 0.0)
        for i, (number, width) in enumerate(owners):
            whole, share, part = results[number], pieces[i].shape[1] / width, read[i]
            if whole.text and part.text and _apart(pieces[i - 1], pieces[i]):
                part = Letters(f" {part.text}", [1.0, *part.scores], [0.0, *part.places])
            whole.text += part.text
            whole.scores += part.scores
            whole.places += [begins[number] + place * share for place in part.places]
            begins[number] += share
        return results

    @property
    def space(self) -> int:
        """The class of the space; 0 if there is none."""
        return self.alphabet.index(" ") if " " in self.alphabet else 0

    def decoded(self, row: Array, shown: float) -> Letters:
        """The letters of (score, class, score of a space) of each step.

        shown: the share that the line takes. A space is told, too, where it is likely within all
        the steps between two letters, though in none of them the likeliest.
        """
        best = row[:, 1].astype(int)
        new = np.append(True, best[1:] != best[:-1]) & (best != 0)
        found, last = Letters(), -1
        for step in np.nonzero(new)[0]:
            letter = self.alphabet[best[step]] if best[step] < len(self.alphabet) else ""
            place = min(1.0, (step + 0.5) / len(row) / shown)
            none = float(np.prod(1 - row[last + 1 : step, 2]))
            if found.text and " " not in (found.text[-1], letter) and 1 - none > _SPACE:
                found.text += " "
                found.scores.append(1 - none)
                found.places.append((found.places[-1] + place) / 2)
            found.text += letter
            found.scores += [float(row[step, 0])] * len(letter)
            found.places += [place] * len(letter)
            last = int(step)
        return found


def _rounded(width: float) -> int:
    """A width of few: the next of those that lie about an eighth apart, a multiple of 32."""
    step = max(32, 1 << max(0, int(width).bit_length() - 4))
    return int(-(-width // step) * step)


def _apart(left: Array, right: Array) -> bool:
    """Whether there is room for a space where a line was cut."""
    ink = np.concatenate([left[:, -left.shape[0] :], right[:, : right.shape[0]]], 1)
    ink = np.abs(ink.astype(np.float32) - np.median(ink)).mean((0, 2))
    middle = min(left.shape[0], left.shape[1])
    written = np.nonzero(ink > 0.2 * ink.max())[0]
    before, after = written[written < middle], written[written >= middle]
    gap = after.min(initial=len(ink)) - before.max(initial=-1)
    return bool(gap > 0.25 * left.shape[0])


def divided(line: Array, count: int, reach: float = 0.4) -> list[Array]:
    """A line in `count` pieces of about one width, cut where the least is written.

    reach: how far from its even place a cut may lie, as a share of a piece's width.
    """
    if count < 2:
        return [line]
    grey = line.astype(np.float32).mean(2)
    ink = np.abs(grey - np.median(grey)).mean(0)
    width = line.shape[1]
    cuts = [0]
    for i in range(1, count):
        low = max(cuts[-1] + 1, int((i - reach) * width / count))
        high = max(low + 1, int((i + reach) * width / count))
        part = ink[low:high]
        far = np.abs(np.arange(low, low + len(part)) - i * width / count)
        cuts.append(low + int(np.argmin(part + far * 1e-3)) if len(part) else low)
    cuts.append(width)
    return [line[:, a:b] for a, b in zip(cuts, cuts[1:], strict=False) if b > a]


def windows(
    image: Array, least: int, most: int
) -> tuple[list[tuple[int, int, Array]], tuple[int, int], Array]:
    """A picture as what a detector sees: windows with the row and column where each begins, the
    size of all of it, and (x, y) of scale and offset: seen = scale * pixel + offset.

    The shorter side has at least `least` pixels where the longer one then has at most `most`; a
    longer picture is made smaller, and a much longer one is seen in several windows. Sides are
    multiples of 32. What is narrower than a line's surroundings gets a margin of its own color.
    """
    height, width = image.shape[:2]
    wide, high = _margin(width, height), _margin(height, width)
    if wide or high:
        color = np.median(image.reshape(-1, 3), axis=0).astype(np.uint8)
        framed = np.empty((height + 2 * high, width + 2 * wide, 3), np.uint8)
        framed[:] = color
        framed[high : high + height, wide : wide + width] = image
        image = framed
    short, long = sorted(image.shape[:2])
    scale = 1.0
    if short < least:
        scale = max(1.0, min(least / short, most / long, LARGER))
    elif long > most:
        scale = max(most / long, min(1.0, most / 2 / short))
    rows, columns = (max(32, round(n * scale / 32) * 32) for n in image.shape[:2])
    size = rows, columns
    seen = resize(image, size, "opencv" if scale >= 0.5 else "bilinear")
    axis = int(size[1] > size[0])
    count = max(1, -(-(size[axis] - OVERLAP) // (most + 32 - OVERLAP)))
    each = -(-(size[axis] + (count - 1) * OVERLAP) // (32 * count)) * 32
    starts = [min(i * (each - OVERLAP), size[axis] - each) for i in range(count)]
    pieces = [(0, s, seen[:, s : s + each]) if axis else (s, 0, seen[s : s + each]) for s in starts]
    scales = np.array([size[1] / image.shape[1], size[0] / image.shape[0]])
    return pieces, size, np.stack([scales, scales * (wide, high)])


def _margin(side: int, other: int) -> int:
    """The pixels to add before and after a side: of a strip of one line as much as the line."""
    return max(side, 16) if side < 30 or side * 8 < min(other, 1600) else 0


def stitched(maps: Iterable[tuple[int, int, Array]], size: tuple[int, int]) -> Array:
    """Maps (channels, height, width) of windows, with the place of each, as one: the largest."""
    whole: Array | None = None
    for top, left, values in maps:
        if whole is None:
            whole = np.zeros((values.shape[0], *size), np.float32)
        part = whole[:, top : top + values.shape[1], left : left + values.shape[2]]
        np.maximum(part, values, out=part)
    assert whole is not None
    return whole


def normalized(lines: Sequence[Array], height: int, width: int) -> Array:
    """Lines as float32 (n, 3, height, width) from -1 to 1, blue first, with zeros after each."""
    batch = np.zeros((len(lines), 3, height, width), np.float32)
    for row, line in zip(batch, lines, strict=True):
        fits = min(width, max(1, -(-line.shape[1] * height // line.shape[0])))
        small = resize(np.ascontiguousarray(line), (height, fits), "opencv")
        row[:, :, :fits] = small[..., ::-1].transpose(2, 0, 1) / 127.5 - 1
    return batch

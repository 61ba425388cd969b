"""Prompts with pictures: token ids, among them numbers that stand for the rows of a picture.

Such a number names the picture by a hash of its pixels, so that sessions and caches compare prompts
with pictures as they compare others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.tensor.tensor import Tensor

# In a picture's text, the place of its number among those of the prompt, from 0 on.
NUMBER = "\ue000"
# Tensors that a step takes beside ids, see layers/seeing/pictured.py.
Pictured = Mapping[str, Tensor] | None
# (3, length): positions by time, height and width.
Places = npt.NDArray[np.int64] | None
# A number from here on stands for a row of a picture: the picture's key, the placeholder's token,
# the number of the row.
_FIRST, _KEY_BITS, _TOKEN_BITS, _ROW_BITS = 1 << 128, 64, 32, 24


@dataclass(eq=False)
class Picture:
    """A picture as a model reads it.

    inputs: the model's arguments beside ids, `pixels` first. text: what stands for it in a prompt.
    size: (height, width) of the file's pixels. grid: (time, height, width) of its rows, where
    positions go by it. read: (height, width) of the whole picture's pixels as the model has them.
    features: its rows on the device, once they are computed.
    """

    inputs: dict[str, npt.NDArray[Any]]
    text: str
    size: tuple[int, int]
    grid: tuple[int, int, int] | None = None
    read: tuple[int, int] | None = None
    features: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(digest_size=8)
        for name, values in self.inputs.items():
            digest.update(f"{name} {values.dtype} {values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data)
        self.key = int.from_bytes(digest.digest(), "little")

    def tokens(self, count: int, token: int) -> list[int]:
        """The numbers that stand for `count` rows, each in the place of the id `token`."""
        first = _FIRST + (((self.key << _TOKEN_BITS) + token) << _ROW_BITS)
        return list(range(first, first + count))


class PicturePrompt(list[int]):
    """The tokens of a prompt with pictures, which hold what the model reads of them.

    `ids` are the token ids as a tokenizer gives them. A slice or a copy is a plain list: the
    prompt itself must live until it is read.
    """

    def __init__(self, tokens: Iterable[int], pictures: Sequence[Picture]) -> None:
        super().__init__(tokens)
        self.pictures = list(pictures)

    @property
    def ids(self) -> list[int]:
        """The token ids, with the placeholder's for each row of a picture."""
        return plain_ids(self)

    def inputs(self, device: Any = "cpu") -> dict[str, Tensor]:
        """What a model's call takes beside ids: `pixels` and more, of all pictures.

        Pictures of several sizes are filled up with zeros to the largest.
        """
        from rushlight.core.tensor.tensor import from_numpy

        names = self.pictures[0].inputs if self.pictures else {}
        return {
            name: from_numpy(_joined([p.inputs[name] for p in self.pictures])).to(device)
            for name in names
        }


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Arrays one after another, filled up with zeros at the end of all other dims."""
    sides = [max(sizes) for sizes in zip(*(a.shape[1:] for a in arrays), strict=True)]
    return np.concatenate(
        [
            np.pad(
                a, [(0, 0), *((0, most - n) for n, most in zip(a.shape[1:], sides, strict=True))]
            )
            for a in arrays
        ]
    )


def row_of(token: int) -> tuple[int, int] | None:
    """(key of the picture, number of its row) of a number in a prompt; None for a token id."""
    if token < _FIRST:
        return None
    token -= _FIRST
    return token >> (_ROW_BITS + _TOKEN_BITS), token & ((1 << _ROW_BITS) - 1)


def plain_ids(tokens: Iterable[int]) -> list[int]:
    """Token ids of a prompt, with the placeholder's for each row of a picture."""
    mask = (1 << _TOKEN_BITS) - 1
    return [t if t < _FIRST else (t - _FIRST) >> _ROW_BITS & mask for t in tokens]


def prompt_of(
    ids: Sequence[int],
    token: int,
    pictures: Sequence[Picture],
    counts: Sequence[int],
    others: Sequence[int] = (),
) -> PicturePrompt:
    """The prompt of token ids in which placeholders stand for the rows of pictures, in turn.

    token: the placeholder's id; others: more of them. counts: the rows of each picture. ValueError
    if `ids` has another number of placeholders.
    """
    places = {token, *others}
    there = sum(i in places for i in ids)
    if there != sum(counts):
        raise ValueError(
            f"the prompt has {there} tokens of pictures (id {token}), but its {len(pictures)} "
            f"pictures have {sum(counts)} rows; give a picture for each place"
        )
    rows = (t for p, n in zip(pictures, counts, strict=True) for t in p.tokens(n, 0))
    numbers = (next(rows) + (i << _ROW_BITS) if i in places else i for i in ids)
    return PicturePrompt(numbers, pictures)

"""Sight: what a family's file says about how its models see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.pictures import Picture
from rushlight.models.generation.places import Scale
from rushlight.models.image.files import Pixels

# (model, the inputs of pictures by name) -> features (rows, width), of all pictures in turn; with
# `deep` (rows, (1 + deep) * width).
Look = Callable[[Any, Mapping[str, Tensor]], Tensor]


class PictureProcessor(Protocol):
    """Pixels (height, width, 3) uint8 of a picture -> what a model reads of it, and its text.

    alone: whether it is the only one of its prompt. An attribute `prefix` begins every prompt with
    pictures, an attribute `limited` makes the processor of other bounds of pixels.
    """

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """The picture as the model reads it."""
        ...


@dataclass(frozen=True)
class Sight:
    """How pictures come into a language model.

    token: the id of the placeholder that each row of a picture replaces; others: ids of tokens of a
    picture's text that rows replace too. marker: the text of a
    picture in a prompt, which the processor's text takes the place of. inline: what is written for
    a picture where no chat template does; "": the marker. parts: modules beside the language model,
    by their paths, or the sizes of parameters. look: makes rows of the inputs. processor: (small
    files, config.json) -> the checkpoint's processor. deep: the number of layers after which more
    is added to the rows. together: which tokens see each other: none, those of a "picture" (within
    a layer's window, if it has one), those in layers with a "window" alone, or the whole "prompt".
    blank: the token that inputs of layers are of in the place of rows, if there are such inputs.
    framed: (text, number of pictures) -> the text of a prompt as the reference's processor frames
    it, which adds no special tokens then; special: whether the tokenizer adds them otherwise.
    sections: whether positions are by time, height and width; a picture moves those after it by the
    larger side of its grid. merge: how many patches each side of a row has, where the model's input
    image_grid_thw counts patches. scale: what the numbers of boxes in answers count. joined: a
    change of a prompt's text in which those of pictures stand.
    """

    token: int
    marker: str
    parts: Mapping[str, nn.Module | tuple[int, ...]]
    look: Look
    processor: Callable[[Mapping[str, bytes], Any], PictureProcessor]
    deep: int = 0
    together: Literal["", "picture", "window", "prompt"] = ""
    blank: int | None = None
    framed: Callable[[str, int], str] | None = None
    special: bool = True
    sections: bool = False
    merge: int = 1
    inline: str = ""
    scale: Scale = "thousandths"
    others: tuple[int, ...] = ()
    joined: Callable[[str], str] | None = None


def grids_of(value: Any) -> list[tuple[int, int, int]]:
    """The (time, height, width) of each picture, of a tensor or an array (pictures, 3)."""
    rows: Sequence[Sequence[int]] = value.tolist()
    return [(int(t), int(h), int(w)) for t, h, w in rows]


def blind() -> Sight:
    """What a checkpoint sees by that has no tensors of a tower: nothing."""

    def nothing(*given: Any) -> Any:
        raise ValueError("the checkpoint has no tensors of what sees; it reads texts only")

    return Sight(-1, "<image>", {}, nothing, nothing)

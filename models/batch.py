"""Row: one prompt of several that are continued together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor
from rushlight.models.sampling import Options
from rushlight.models.streaming import Pieces

if TYPE_CHECKING:
    from rushlight.models.generate import Generator


class Row:
    """One prompt of a batch: its tokens, how many of them are read, and its text so far."""

    def __init__(self, model: Generator, ids: list[int], options: Options) -> None:
        model.check_length(ids, options)
        self.ids, self.read, self.made = ids, 0, 0
        self.sampler = model.sampler(options, ids)
        self.pieces = Pieces(model.tokenizer, options.stops)
        self.texts: list[str] = []
        self.logits: Tensor | None = None
        self.done = False

    @property
    def unread(self) -> list[int]:
        """The tokens that the cache has not; none once the row is done."""
        return [] if self.done else self.ids[self.read :]

    def picked(self) -> Tensor:
        """What is to be read for the next step."""
        assert self.logits is not None, "some token was read"
        return self.sampler.pick(self.logits)

    def step(self, values: Any, ends: frozenset[int], most: int) -> None:
        """Go on by the token that `values`, read from what the sampler picked, names."""
        token, _ = self.sampler.taken(values)
        self.made += 1
        text, hit = ("", False) if token in ends else self.pieces.add(token)
        self.ids.append(token)
        self.done = token in ends or hit or self.made == most
        self.texts.append(text if hit or not self.done else text + self.pieces.finish())

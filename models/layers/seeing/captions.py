"""Captioner: an encoder-decoder whose sources are pictures, with a text beside each if asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.search.memory import Memory
from rushlight.models.generation.search.options import chosen
from rushlight.models.generation.search.run import SearchSteps, search
from rushlight.models.generation.text_to_text import Seq2SeqLM
from rushlight.models.image.documents import page_processor
from rushlight.models.image.files import Pixels, load
from rushlight.models.image.preprocessor_config import processor_of
from rushlight.models.layers.seq2seq.two_models import TwoModels
from rushlight.models.layers.vision.model import ImageModel


class PictureSource(list[int]):
    """The tokens of a text beside a picture, and what a model reads of the picture.

    inputs: arrays with a row each, by name. first: the tokens that the decoder begins with; () for
    the checkpoint's. size: (height, width) of the file's pixels.
    """

    def __init__(
        self,
        ids: Sequence[int],
        inputs: Mapping[str, npt.NDArray[Any]],
        first: Sequence[int] = (),
        size: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(ids)
        self.inputs, self.first, self.size = dict(inputs), tuple(first), size

    @property
    def kind(self) -> tuple[Any, ...]:
        """What sources that are searched together share."""
        return self.first, *((name, values.shape[1:]) for name, values in self.inputs.items())


class Captioner(Seq2SeqLM):
    """A Seq2SeqLM whose sources are pictures, as `rl.image.load` takes them, or pairs with a text.

    Families define `prepared` and `encode`; `reads_text`: whether the encoder reads the tokens too.
    """

    processor: Any = None
    reads_text = False

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, the defaults of a search, and what is asked of pictures."""
        super().configure(files)
        self.processor = self.find_processor(files)

    def find_processor(self, files: Mapping[str, bytes]) -> Any:
        """The processor of pictures that a checkpoint's files describe."""
        return page_processor(files) or processor_of(files, self.processor)

    def prepared(self, pixels: Pixels, text: str) -> PictureSource:
        """The source of pixels (height, width, 3) uint8 and a text, with which the answer begins.

        ValueError for a text without a tokenizer.
        """
        inputs = {"pixels": self.processor.one(pixels)[None]}
        return PictureSource([], inputs, self.beginning(text), (pixels.shape[0], pixels.shape[1]))

    def beginning(self, text: str) -> list[int]:
        """The tokens that an answer begins with, for a text; [] for none."""
        if not text:
            return []
        ids = self.text_ids(text)
        start = chosen(self.stored, {}).decoder_start_token_id
        return ids if start is None or ids[:1] == [start] else [int(np.max(start)), *ids]

    def text_ids(self, text: str, special: bool = False) -> list[int]:
        """Token ids of a text; ValueError without a tokenizer."""
        if self.tokenizer is None:
            raise ValueError("generate: the checkpoint has no tokenizer, so it takes no text")
        return list(self.tokenizer.encode(text, add_special_tokens=special).ids)

    def source_ids(self, source: Any) -> PictureSource:
        """The source of a picture, or of a pair of one and a text."""
        if isinstance(source, PictureSource):
            return source
        image, text = source if isinstance(source, tuple) else (source, "")
        return self.prepared(load(image), text)

    def search(self, sources: Sequence[Any], **options: Any) -> SearchSteps:
        """The steps of answers to sources; see `Seq2SeqLM.search`.

        ValueError for sources whose answers begin differently, or of several sizes.
        """
        rows = [self.source_ids(source) for source in sources]
        if len({row.kind for row in rows}) > 1:
            raise ValueError("generate: sources differ in size or beginning; give them one by one")
        if rows and rows[0].first and options.get("decoder_start_token_id") is None:
            options["decoder_start_token_id"] = list(rows[0].first)
        return search(self, rows, chosen(self.stored, options))

    def source_width(self, rows: Sequence[Any]) -> Any:
        """What sources share: the shapes of pictures, and the width of texts that are read."""
        width = super().source_width(rows) if self.reads_text else 0
        return width, rows[0].kind

    def place_sources(self, rows: Sequence[Any], width: Any, pad: int) -> tuple[Tensor, ...]:
        """The inputs of pictures, and ids and mask of texts that are read, on the device.

        `rows` are sources of one kind, `width` is what `source_width` gave, `pad` the token that
        fills texts up. It raises nothing itself.
        """
        arrays = [np.concatenate([row.inputs[name] for row in rows]) for name in rows[0].inputs]
        placed = tuple(from_numpy(array).to(self.device) for array in arrays)
        return placed + (super().place_sources(rows, width[0], pad) if self.reads_text else ())

    def memory_of(self, *inputs: Tensor) -> Memory:
        """The memory of what `place_sources` gave."""
        return self.remember(self.encode(*inputs))

    def as_weights(self, pixels: Tensor) -> Tensor:
        """Pixels in the dtype of the weights, where that is a float."""
        return pixels.to(self.dtype) if self.dtype.is_floating_point else pixels


class PictureWriter(Captioner, TwoModels):
    """Pictures to text by an encoder of pictures, and a decoder that reads its hidden states."""

    encoder: ImageModel
    prompts_whole = False  # a text is all that an answer begins with

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The hidden states (batch, length, width) of pixels (batch, channels, height, width)."""
        return self.encoder.hidden(self.as_weights(ids))

    def beginning(self, text: str) -> list[int]:
        """The tokens that an answer begins with, for a text; [] for none."""
        return self.text_ids(text) if text and self.prompts_whole else super().beginning(text)

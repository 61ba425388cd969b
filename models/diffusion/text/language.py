"""Language models and T5 as encoders of prompts: ids, filled rows, states after asked layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import LoadError
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.pictures import prompt_of

if TYPE_CHECKING:
    from rushlight.models.diffusion.model import DiffusionModel


class PromptEncoder(nn.Module):
    """A model of texts, whatever family it is of, that a pipeline has as a part."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = model.config

    @classmethod
    def assembled(cls, files: Mapping[str, bytes], tensors: Mapping[str, Tensor]) -> PromptEncoder:
        """The encoder of config.json and its tensors; what `assemble` raises."""
        from rushlight.models.loading import assemble

        return cls(assemble(files, tensors))


class T5Text(PromptEncoder):
    """T5's encoder."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The last states (batch, length, width) of ids (batch, length).

        `attention_mask` (batch, length): 0 for padding; without it all tokens are seen.
        """
        states: Tensor = self.model(ids, attention_mask)
        return states


class LanguageText(PromptEncoder):
    """A language model: states after some of its layers."""

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.model.spec.layers)

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, layers: Sequence[int] = (-1,)
    ) -> list[Tensor]:
        """States (batch, length, width) of ids (batch, length) after each of `layers` layers.

        `layers` are counted from 1, or from -1 for all with the last norm. `attention_mask` (batch,
        length): 0 for padding, which has positions of its own. Raises ValueError for layers that
        the model does not have.
        """
        numbers = [n if n >= 0 else self.depth + 1 + n for n in layers]
        if any(not 0 < n <= self.depth for n in numbers):
            raise ValueError(
                f"text_encoder: layers {list(layers)} are asked of {self.depth}; the text encoder "
                "is another one than the pipeline's"
            )
        kept: dict[int, Tensor | None] = {n: None for n in numbers if n < self.depth}
        places = ops.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        pictured = None if attention_mask is None else {"positions": places}
        last = self.model.hidden(ids, None, attention_mask, pictured=pictured, kept=kept)
        states = [last if n == self.depth else kept[n] for n in numbers]
        return [state for state in states if state is not None]

    def sees_by(self, files: Mapping[str, bytes]) -> None:
        """Take what the model asks of pictures from the small files of a pipeline's processor."""
        if self.model.processor is None:
            self.model.processor = self.model.sight.processor(files, self.config)

    def pictured(
        self,
        tokenizer: Any,
        images: Sequence[Any],
        places: Sequence[str],
        text: tuple[str, str],
    ) -> Tensor:
        """The last states (words, width) of a text with pictures in it.

        images: pixels (height, width, 3) in bytes. places: what stands for each, with {} for its
        tokens. text: what comes before the pictures, and after them. ValueError for a checkpoint
        without what sees.
        """
        seen = self.model._seen(images)
        inline = "".join(p.replace("{}", s.text) for p, s in zip(places, seen, strict=True))
        ids = tokenizer.encode(inline.join(text)).ids
        counts = [
            sum(i == self.model.sight.token for i in tokenizer.encode(s.text).ids) for s in seen
        ]
        prompt = prompt_of(ids, self.model.sight.token, seen, counts)
        device = next(iter(self.model.parameters())).device
        row = tensor([prompt.ids], dtype=int64)
        pictured = self.model._pictured_of(row, prompt.inputs(device), None)
        states: Tensor = self.model.hidden(row.to(device=device), None, None, pictured=pictured)
        return states[0]


def rows_of(
    model: DiffusionModel, part: str, texts: Sequence[str], length: int
) -> tuple[Tensor, Tensor]:
    """Ids and mask (texts, length) of texts by the tokenizer `part`, cut and filled to a length."""
    tokenizer = model.parts.tokenizer(part)
    pad = tokenizer.pad_id or 0
    ids = np.full((len(texts), length), pad, np.int64)
    mask = np.zeros((len(texts), length), np.int64)
    for i, text in enumerate(texts):
        row = tokenizer.encode(text, max_length=length).ids
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    device = model.device
    return tensor(ids, dtype=int64, device=device), tensor(mask, dtype=int64, device=device)


def row_of(model: DiffusionModel, part: str, text: str, length: int) -> Tensor:
    """Ids (1, tokens) of one text, cut to a length and not filled."""
    row = model.parts.tokenizer(part).encode(text, max_length=length).ids
    return tensor([row], dtype=int64, device=model.device)


def as_chat(model: DiffusionModel, part: str, text: str, **variables: Any) -> str:
    """A prompt as the user's message, by the chat template of the tokenizer `part`.

    variables: of the template. LoadError where the part has no template.
    """
    from rushlight.models.generation.chatting import read_template

    template = read_template(model.parts.source.files(part))
    if template is None:
        raise LoadError(
            f"the part {part} has no chat template",
            hint="it has chat_template.jinja, or chat_template in tokenizer_config.json",
        )
    message = [{"role": "user", "content": text}]
    rendered: str = template.render(message, add_generation_prompt=True, **variables)
    return rendered

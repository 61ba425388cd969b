"""CLIP's text encoders: all states of prompts, and the vector of a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushlight.core import nn
from rushlight.core.basis.dtype import int64
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.models.diffusion.model import DiffusionModel


@dataclass
class TextStates:
    """What an encoder makes of prompts.

    states: (batch, tokens, width) before the layers and after each; final: the last one after the
    norm; pooled: (batch, features) of each text, projected where the model has a projection.
    """

    states: list[Tensor]
    final: Tensor
    pooled: Tensor


class ClipText(nn.Module):
    """A text encoder of CLIP's family: ids (batch, tokens) -> TextStates."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = model.config

    @staticmethod
    def assembled(files: Mapping[str, bytes], tensors: Mapping[str, Tensor]) -> ClipText:
        """The encoder of config.json and its tensors."""
        from rushlight.models.loading import assemble

        parameters = {n: t for n, t in tensors.items() if not n.endswith("position_ids")}
        return ClipText(assemble(files, parameters))

    @property
    def context(self) -> int:
        """The most tokens of a text."""
        return int(self.model.text.context)

    def forward(self, ids: Tensor) -> TextStates:
        spec, base = self.model.text, self.model.get_submodule("text_model")
        table = base.embeddings
        x = table.token_embedding(ids) + table.position_embedding.weight[: ids.shape[1]]
        states = [x]
        for layer in base.encoder.layers:
            states.append(layer(states[-1], None, True))
        final = base.final_layer_norm(states[-1])
        ends = ids if spec.end is None else (ids == spec.end).to(dtype=ids.dtype)
        place = ends.argmax(1).reshape(-1, 1, 1).expand(-1, 1, final.shape[2])
        pooled = final.gather(1, place)[:, 0]
        if spec.projection is not None:
            pooled = self.model.text_projection(pooled)
        return TextStates(states, final, pooled)

    def norm(self, x: Tensor) -> Tensor:
        """The last norm, of a state."""
        out: Tensor = self.model.get_submodule("text_model").final_layer_norm(x)
        return out


def encode_clip(model: DiffusionModel, number: str, texts: list[str]) -> TextStates:
    """The states of texts by `text_encoder` and `tokenizer`, with a number such as "_2" after.

    Texts are cut at the encoder's context, and no words have weights.
    """
    tokenizer = model.parts.tokenizer(f"tokenizer{number}")
    encoder: ClipText = model.parts.get(f"text_encoder{number}")
    rows = [framed(tokenizer, ids_of(tokenizer, text), encoder.context) for text in texts]
    states: TextStates = encoder(tensor(rows, dtype=int64, device=model.device))
    return states


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text without those around it."""
    encoding = tokenizer.encode(text)
    return [i for i, extra in zip(encoding.ids, encoding.special, strict=True) if not extra]


def framed(tokenizer: Any, ids: list[int], context: int) -> list[int]:
    """Ids between the first and the last token, filled up to the context with the padding."""
    begin, end = ends_of(tokenizer)
    row = [begin, *ids[: context - 2], end]
    pad = end if tokenizer.pad_id is None else tokenizer.pad_id
    return row + [pad] * (context - len(row))


def ends_of(tokenizer: Any) -> tuple[int, int]:
    """The ids of the first and the last token of a text."""
    encoding = tokenizer.encode("")
    return encoding.ids[0], encoding.ids[-1]

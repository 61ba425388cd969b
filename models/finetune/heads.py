"""A head for classes on any encoder or language model, and texts as vectors that can be learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.reductions import normalize as unit
from rushlight.core.io.text.tokenizer import pad_batch
from rushlight.core.nn import init
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.sentence_modules import pooled


class ClassificationHead(nn.Module):
    """(n, width) vectors -> (n, classes) scores: dropout and one linear layer.

    `width` features, `classes` scores, `dropout` in training; `std` of the first weights. Raises
    ValueError for no classes.
    """

    def __init__(self, width: int, classes: int, *, dropout: float = 0.1, std: float = 0.02):
        if classes < 1:
            raise ValueError(f"ClassificationHead: classes is {classes}; at least 1")
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)
        with autograd.no_grad():
            init.normal_(self.linear.weight, std=std)
            if self.linear.bias is not None:
                init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, width) -> (n, classes)."""
        logits: Tensor = self.linear(self.dropout(x))
        return logits


def embed(model: Any, texts: Sequence[str], *, normalize: bool | None = None) -> Tensor:
    """`model.encode` with gradients: (n, width) of `texts`, as one batch in their order.

    model: a sentence encoder. normalize: whether vectors have length one; default: as the
    checkpoint says.

    Raises ValueError for no texts.
    """
    ids, mask = batch_of(model, texts)
    hidden = model(ids, mask).float()
    after = model.after
    hidden = hidden if after is None else after.tokens(hidden)
    names = (model.pooling,) if isinstance(model.pooling, str) else model.pooling
    vectors = pooled(hidden, mask, names, 0)
    vectors = vectors if after is None else after.texts(vectors)
    to_unit = model.normalize if normalize is None else normalize
    return unit(vectors, dim=-1) if to_unit else vectors


def batch_of(model: Any, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Ids and mask (n, length) of texts, padded on the right to a multiple of 8."""
    rows = [text.lower() if model.lowercase else text for text in texts]
    encodings = model.tokenizer.encode_batch(rows, max_length=model.max_length)
    width = min(-(-max(map(len, encodings)) // 8) * 8, model.max_length)
    ids, mask = pad_batch(encodings, model.tokenizer.pad_id or 0, length=width)
    return from_numpy(ids).to(model.device), from_numpy(mask).to(model.device)

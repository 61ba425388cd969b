"""Splinter's head (Ram et al., 2021): ends of an answer by how they fit the question's token."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor

_LEAST = -3.4e38
_SIDES = ("start", "end")


class Transform(nn.Module):
    """A projection, GELU, and a norm."""

    def __init__(self, width: int) -> None:
        self.dense, self.LayerNorm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        out: Tensor = self.LayerNorm(ops.gelu(self.dense(x)))
        return out


class QuestionAnswers(nn.Module):
    """The scores of starts and ends: products of each token with the first `token`, both projected.

    A text without such a token is asked at its first place.
    """

    def __init__(self, width: int, token: int) -> None:
        self.token = token
        for side in _SIDES:
            setattr(self, f"query_{side}_transform", Transform(width))
            setattr(self, f"{side}_transform", Transform(width))
            setattr(self, f"{side}_classifier", nn.Linear(width, width, bias=False))

    def forward(self, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, length, width) and the ids -> (batch, length, 2); padding has the least score."""
        place = (ids == self.token).to(ids.dtype).argmax(-1)
        asked = x.gather(1, place.reshape(-1, 1, 1).expand(x.shape[0], 1, x.shape[2]))
        parts = []
        for side in _SIDES:
            of: Any = getattr(self, f"query_{side}_transform")
            question: Tensor = getattr(self, f"{side}_classifier")(of(asked))
            tokens: Tensor = getattr(self, f"{side}_transform")(x)
            parts.append((tokens * question).sum(-1, keepdim=True))
        scores = ops.cat(parts, -1)
        if mask is not None:
            scores = ops.where((mask != 0).unsqueeze(-1), scores, _LEAST)
        return scores

"""Embeddings of encoders that are more than a sum of BERT's: places on a page, dropped words."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.norms import make_norm


class BoxEmbeddings(nn.Module):
    """BERT's embeddings and those of each token's box on the page (LayoutLM; Xu et al., 2019)."""

    def __init__(self, spec: EncoderSpec, places: int) -> None:
        self.places, width = places, spec.width
        self.word_embeddings = nn.Embedding(spec.vocab, width)
        self.position_embeddings = nn.Embedding(spec.context, width)
        for axis in "xyhw":
            setattr(self, f"{axis}_position_embeddings", nn.Embedding(places, width))
        self.token_type_embeddings = nn.Embedding(spec.types, width)
        self.LayerNorm = make_norm(width, spec.norm)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self,
        ids: Tensor,
        types: Tensor | None,
        seen: Tensor | None,
        bbox: Tensor | None = None,
    ) -> Tensor:
        """(batch, length) -> (batch, length, width).

        bbox (batch, length, 4): left, top, right and bottom of each token, from 0 to 1000; zeros
        where a text has no page. Raises ValueError for another shape.
        """
        kinds: Any = self.token_type_embeddings
        positions: Any = self.position_embeddings.weight
        x: Tensor = self.word_embeddings(ids) + positions[: ids.shape[1]]
        x = x + (kinds.weight[0] if types is None else kinds(types))
        if bbox is None:
            bbox = ops.zeros(*ids.shape, 4, dtype=ids.dtype, device=ids.device)
        if bbox.shape != (*ids.shape, 4):
            raise ValueError(f"layoutlm: bbox is {bbox.shape}; it must be {(*ids.shape, 4)}")
        left, top, right, bottom = (bbox[..., i] for i in range(4))
        for axis, place in (
            ("x", left), ("y", top), ("x", right), ("y", bottom), ("h", bottom - top),
            ("w", right - left),
        ):  # fmt: skip
            x = x + getattr(self, f"{axis}_position_embeddings")(place)
        out: Tensor = self.dropout(self.LayerNorm(x))
        return out


class MaskedEmbeddings(nn.Module):
    """ESM's embeddings (Lin et al., 2022): a masked word has none, and the others are scaled as if
    as many were masked as in training. `mask`: its id; None: all words are alike.
    """

    # The share of words that were masked in training.
    masked = 0.15 * 0.8

    def __init__(self, spec: EncoderSpec, mask: int | None, normed: bool) -> None:
        if spec.absolute and spec.pad is None:
            raise FormatError("config.json: pad_token_id is null; positions need it")
        self.spec, self.mask = spec, mask
        self.word_embeddings = nn.Embedding(spec.vocab, spec.width)
        if spec.absolute:
            places = spec.first + spec.context
            self.position_embeddings = nn.Embedding(places, spec.width)
        self.layer_norm = make_norm(spec.width, spec.norm) if normed else None

    def forward(self, ids: Tensor, types: Tensor | None, seen: Tensor | None) -> Tensor:
        """(batch, length) -> (batch, length, width)."""
        x: Tensor = self.word_embeddings(ids)
        if self.mask is not None:
            kept = (ids != self.mask).to(x.dtype)
            hidden = (1 - kept).sum(1, keepdim=True)
            count: Tensor | int = ids.shape[1]
            if seen is not None:
                count = seen.to(x.dtype).sum(1, keepdim=True)
            share = (1 - self.masked) / (1 - hidden / count)
            x = x * (kept * share).unsqueeze(-1)
        if self.spec.absolute:
            real = (ids != (self.spec.pad or 0)).to(ids.dtype)
            x = x + self.position_embeddings(real.cumsum(1) * real + (self.spec.first - 1))
        x = x if self.layer_norm is None else self.layer_norm(x)
        return x if seen is None else x * seen.unsqueeze(-1).to(x.dtype)


class WrittenEmbeddings(nn.Module):
    """RoCBert's embeddings (Su et al., 2022): of words, of their shapes and of their sounds.

    shapes, sounds: how many there are and their features; None: there are none. together: whether
    the three are joined and projected.
    """

    def __init__(
        self,
        spec: EncoderSpec,
        shapes: tuple[int, int],
        sounds: tuple[int, int],
        used: tuple[bool, bool],
        together: bool,
    ) -> None:
        width, self.used, self.together = spec.width, used, together
        self.word_embeddings = nn.Embedding(spec.vocab, width)
        self.pronunciation_embed = nn.Embedding(*sounds)
        self.shape_embed = nn.Embedding(*shapes)
        self.position_embeddings = nn.Embedding(spec.context, width)
        self.token_type_embeddings = nn.Embedding(spec.types, width)
        if together:
            inside = width + used[0] * shapes[1] + used[1] * sounds[1]
            self.map_inputs_layer = nn.Linear(inside, width)
        self.LayerNorm = make_norm(width, spec.norm)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self,
        ids: Tensor,
        types: Tensor | None,
        seen: Tensor | None,
        input_shape_ids: Tensor | None = None,
        input_pronunciation_ids: Tensor | None = None,
    ) -> Tensor:
        """(batch, length) -> (batch, length, width).

        input_shape_ids, input_pronunciation_ids: (batch, length), those of each token; without
        them each has the first of the table, or none where the tables are not joined.
        """
        kinds: Any = self.token_type_embeddings
        positions: Any = self.position_embeddings.weight
        words: Tensor = self.word_embeddings(ids)
        beside = positions[: ids.shape[1]] + (kinds.weight[0] if types is None else kinds(types))
        tables: tuple[Any, Any] = self.shape_embed, self.pronunciation_embed
        chosen = zip(tables, (input_shape_ids, input_pronunciation_ids), self.used, strict=True)
        rows = [
            table(ids * 0 if own is None else own)
            for table, own, used in chosen
            if used and (self.together or own is not None)
        ]
        if self.together:
            joined = self.map_inputs_layer(ops.cat([words, *rows], -1))
            out: Tensor = self.dropout(self.LayerNorm(joined + beside))
            return out
        x: Tensor = self.dropout(self.LayerNorm(words + beside))
        for row in rows:
            x = x + row
        return x / (1 + len(rows))

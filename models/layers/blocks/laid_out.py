"""LiLT (Wang et al., 2022): layers of texts, and narrow ones of where their words stand on a page.

Both share the weights of attention, whose scores are the sum of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm


class PlaceEmbeddings(nn.Module):
    """The boxes of tokens, and their numbers, `narrow` features wide."""

    def __init__(self, spec: EncoderSpec, places: int, narrow: int) -> None:
        if spec.width % 6:
            raise FormatError(
                f"config.json: hidden_size {spec.width} is not a multiple of 6, the parts of a box"
            )
        for axis in "xyhw":
            setattr(self, f"{axis}_position_embeddings", nn.Embedding(places, spec.width // 6))
        self.box_position_embeddings = nn.Embedding(spec.context, narrow)
        self.box_linear_embeddings = nn.Linear(spec.width, narrow)
        self.LayerNorm = make_norm(narrow, spec.norm)

    def forward(self, bbox: Tensor, positions: Tensor) -> Tensor:
        """bbox (batch, length, 4), positions (batch, length) -> (batch, length, narrow)."""
        left, top, right, bottom = (bbox[..., i] for i in range(4))
        parts = [
            getattr(self, f"{axis}_position_embeddings")(place)
            for axis, place in (
                ("x", left), ("y", top), ("x", right), ("y", bottom), ("h", bottom - top),
                ("w", right - left),
            )
        ]  # fmt: skip
        x = self.box_linear_embeddings(ops.cat(parts, -1)) + self.box_position_embeddings(positions)
        out: Tensor = self.LayerNorm(x)
        return out


class LaidOutLayer(nn.Module):
    """A layer of a text and of its layout; the names are the checkpoint's."""

    def __init__(self, spec: EncoderSpec, ratio: int) -> None:
        self.spec, self.ratio = spec, ratio
        for before, share in (("", 1), ("layout_", ratio)):
            width, inner = spec.width // share, spec.inner // share
            for name in ("query", "key", "value"):
                put(self, f"attention.self.{before}{name}", nn.Linear(width, width))
            put(self, f"attention.{before}output.dense", nn.Linear(width, width))
            put(self, f"attention.{before}output.LayerNorm", make_norm(width, spec.norm))
            put(self, f"{before}intermediate.dense", nn.Linear(width, inner))
            put(self, f"{before}output.dense", nn.Linear(inner, width))
            put(self, f"{before}output.LayerNorm", make_norm(width, spec.norm))
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Tensor, layout: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """(batch, length, width) and (batch, length, narrow) -> the same."""
        spec, head = self.spec, self.spec.head_dim
        narrow = head // self.ratio
        parts = []
        for name in ("query", "key", "value"):
            both = [
                self._called(f"attention.self.{before}{name}", y)
                .reshape(*y.shape[:2], spec.heads, -1)
                .transpose(1, 2)
                for before, y in (("", x), ("layout_", layout))
            ]
            if name == "query":
                both = [both[0] * head**-0.5, both[1] * narrow**-0.5]
            parts.append(ops.cat(both, -1))
        y = ops.attention(*parts, mask=mask, scale=1.0).transpose(1, 2)
        mixed = (part.reshape(*y.shape[:2], -1) for part in (y[..., :head], y[..., head:]))
        first, second = (
            self._fed(before, own, part)
            for before, own, part in zip(("", "layout_"), (x, layout), mixed, strict=True)
        )
        return first, second

    def _fed(self, before: str, x: Tensor, mixed: Tensor) -> Tensor:
        y = self.dropout(self._called(f"attention.{before}output.dense", mixed))
        x = self._called(f"attention.{before}output.LayerNorm", y + x)
        y = ACTIVATIONS[self.spec.activation](self._called(f"{before}intermediate.dense", x))
        y = self.dropout(self._called(f"{before}output.dense", y))
        return self._called(f"{before}output.LayerNorm", y + x)

    def _called(self, path: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(path)(x)
        return out


@dataclass(frozen=True)
class LaidOut:
    """`layers` of both kinds; those of the layout are narrower by `ratio`.

    places: of a page's side. pad: the id that is no token of the text.
    """

    layers: int
    ratio: int
    places: int
    pad: int

    def put(self, model: nn.Module, spec: EncoderSpec) -> None:
        """Make the modules of `model`."""
        if self.ratio < 1 or spec.head_dim % self.ratio or spec.inner % self.ratio:
            raise FormatError(
                f"config.json: channel_shrink_ratio is {self.ratio}; it must divide the features "
                f"of a head, {spec.head_dim}, and intermediate_size, {spec.inner}"
            )
        width = spec.width
        put(model, "embeddings.word_embeddings", nn.Embedding(spec.vocab, width))
        put(model, "embeddings.position_embeddings", nn.Embedding(spec.context, width))
        put(model, "embeddings.token_type_embeddings", nn.Embedding(spec.types, width))
        put(model, "embeddings.LayerNorm", make_norm(width, spec.norm))
        places = PlaceEmbeddings(spec, self.places, width // self.ratio)
        put(model, "layout_embeddings", places)
        for i in range(self.layers):
            put(model, f"encoder.layer.{i}", LaidOutLayer(spec, self.ratio))

    def run(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """Hidden states of the text; see `Body`.

        more: bbox (batch, length, 4), the left, top, right and bottom of each token, from 0 to
        1000; zeros where a text has no page. ValueError for another shape.
        """
        bbox = more.pop("bbox", None)
        if more:
            raise TypeError(f"lilt: {', '.join(more)} is not an input of its embeddings")
        if bbox is None:
            bbox = ops.zeros(*ids.shape, 4, dtype=ids.dtype, device=ids.device)
        if bbox.shape != (*ids.shape, 4):
            raise ValueError(f"lilt: bbox is {bbox.shape}; it must be {(*ids.shape, 4)}")
        real = (ids != self.pad).to(ids.dtype)
        positions = real.cumsum(1) * real + self.pad
        inside = model.embeddings
        kinds = inside.token_type_embeddings
        x = inside.word_embeddings(ids) + inside.position_embeddings(positions)
        x = x + (kinds.weight[0] if types is None else kinds(types))
        x = model.dropout(inside.LayerNorm(x))
        layout = model.dropout(model.layout_embeddings(bbox, positions))
        mask = None if seen is None else seen[:, None, None, :]
        for i in range(self.layers):
            x, layout = model.get_submodule(f"encoder.layer.{i}")(x, layout, mask)
        out: Tensor = x
        return out

    def texts(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """As `run`."""
        return self.run(model, ids, types, seen, **more)

"""Disentangled attention (He et al., 2021): scores of content with relative positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.positions.distances import FARTHEST

TABLE, NORM, CONV = "encoder.rel_embeddings", "encoder.LayerNorm", "encoder.conv"
_PATHS = {"c2p": "attention.self.pos_key_proj", "p2c": "attention.self.pos_query_proj"}
_FIRST = {"c2p": "attention.self.pos_proj", "p2c": "attention.self.pos_q_proj"}


@dataclass(frozen=True)
class DisentangledSpec:
    """A table of `span` distances on each side, in half of which they share logarithmic buckets up
    to `farthest`; 0: none do. parts: of "c2p", "p2c". shared: positions pass the projections of
    content. normed: the table passes a layer norm. older: the names of version 1, whose projection
    for "c2p" has no bias.
    """

    span: int
    farthest: int = 0
    parts: tuple[str, ...] = ()
    shared: bool = False
    normed: bool = False
    older: bool = False

    def __post_init__(self) -> None:
        mid = self.span // 2
        if not 1 <= self.span <= FARTHEST or (self.farthest and not 0 < mid < self.farthest - 1):
            raise FormatError(
                f"config.json: position_buckets {self.span} and max_relative_positions "
                f"{self.farthest} do not fit; supported: 2 to {FARTHEST} buckets, and more than "
                "half as many positions"
            )

    @property
    def paths(self) -> dict[str, str]:
        """The path of each part's projection in a layer."""
        return _FIRST if self.older else _PATHS

    @property
    def reach(self) -> int:
        """The distance past which all share the last row."""
        return min(self.farthest or self.span, FARTHEST)

    def row_of(self) -> npt.NDArray[np.int64]:
        """The table's row for each distance from -reach to reach."""
        far = np.arange(self.reach + 1)
        if self.farthest:
            mid = self.span // 2
            # In float32, as checkpoints were trained: other roundings move the borders of buckets.
            share = np.log(np.maximum(far, mid).astype(np.float32) / np.float32(mid))
            share = share / np.log(np.float32((self.farthest - 1) / mid)) * np.float32(mid - 1)
            far = np.where(far <= mid, far, np.ceil(share).astype(np.int64) + mid)
        rows = np.concatenate([-far[:0:-1], far]) + self.span
        return np.asarray(np.clip(rows, 0, 2 * self.span - 1), np.int64)


def put_projections(layer: nn.Module, width: int, spec: DisentangledSpec) -> None:
    """Make a layer's projections of positions."""
    for kind in () if spec.shared else spec.parts:
        bias = not (spec.older and kind == "c2p")
        put(layer, spec.paths[kind], nn.Linear(width, width, bias=bias))


def put_table(root: nn.Module, width: int, spec: DisentangledSpec, eps: float) -> None:
    """Make the table of distances, and its norm."""
    put(root, TABLE, nn.Embedding(2 * spec.span, width))
    if spec.normed:
        put(root, NORM, nn.LayerNorm(width, eps=eps))


def table_of(root: nn.Module, spec: DisentangledSpec, length: int) -> tuple[Tensor, Tensor]:
    """The table (2 * span, width), and the row for each query and key (length, length)."""
    stored: Any = root.get_submodule(TABLE)
    rows: Tensor = root.get_submodule(NORM)(stored.weight) if spec.normed else stored.weight
    at = ops.arange(length, device=rows.device)
    distance = (at.unsqueeze(1) - at).clamp(-spec.reach, spec.reach)
    by_distance = tensor(spec.row_of(), device=rows.device)
    index = by_distance.index_select(0, (distance + spec.reach).reshape(-1))
    return rows, index.reshape(length, length)


def position_scores(
    layer: nn.Module,
    spec: DisentangledSpec,
    content: dict[str, tuple[str, Tensor]],
    table: tuple[Tensor, Tensor],
) -> Tensor | None:
    """The sum of a layer's scores with positions, not scaled: (batch, heads, length, length).

    content: of each part q or k (batch, heads, length, head), and the projection that positions
    pass where it is shared.
    """
    total: Tensor | None = None
    for kind in spec.parts:
        shared, x = content[kind]
        rows: Tensor = layer.get_submodule(shared if spec.shared else spec.paths[kind])(table[0])
        # (2 span, width) -> (heads, head, 2 span)
        keys = rows.reshape(rows.shape[0], x.shape[1], -1).permute(1, 2, 0)
        index = table[1] if kind == "c2p" else table[1].t()
        scores = (x @ keys).gather(-1, index.expand(*x.shape[:2], *index.shape))
        scores = scores if kind == "c2p" else scores.transpose(-1, -2)
        total = scores if total is None else total + scores
    return total


class ConvLayer(nn.Module):
    """A convolution of the embeddings, added to the first layer's result, and a norm."""

    def __init__(self, width: int, size: int, groups: int, act: str, eps: float) -> None:
        choose("conv_act", act, tuple(ACTIVATIONS))
        if size % 2 == 0 or groups < 1 or width % groups:
            raise FormatError(
                f"config.json: conv_kernel_size {size} and conv_groups {groups} do not fit; "
                f"supported: an odd size, and a divisor of hidden_size {width}"
            )
        self.conv = nn.Conv1d(width, width, size, padding=size // 2, groups=groups)
        self.LayerNorm, self.act = nn.LayerNorm(width, eps=eps), ACTIVATIONS[act]

    def forward(self, x: Tensor, first: Tensor, real: Tensor | None) -> Tensor:
        """The embeddings x and the first layer's result, (batch, length, width), as `first`;
        real (batch, length, 1): 0 for padding.
        """
        y: Tensor = self.conv(x.transpose(1, 2)).transpose(1, 2)
        y = self.act(y if real is None else y * real)
        normed: Tensor = self.LayerNorm(first + y)
        return normed if real is None else normed * real

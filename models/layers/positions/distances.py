"""Biases of attention scores by the distance of two tokens: ALiBi, and T5's learned buckets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.backends import Device
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.positions.scores import slopes_of

# Above any published model; a table has an entry for each distance.
FARTHEST = 1 << 16


def alibi_bias(heads: int, length: int, device: Device) -> Tensor:
    """-slope * distance (Press et al., 2021), in both directions: (1, heads, length, length)."""
    positions = ops.arange(length, device=device)
    distance = (positions - positions.unsqueeze(1)).abs().float()
    slopes = tensor(slopes_of(heads), device=device).reshape(1, -1, 1, 1)
    return slopes * -distance


@dataclass(frozen=True)
class RelativeSpec:
    """`buckets` of distances, alike past `farthest`; every_layer: each layer has its own table."""

    buckets: int
    farthest: int
    every_layer: bool = False

    def __post_init__(self) -> None:
        if not 4 <= self.buckets <= FARTHEST or not self.buckets < self.farthest <= FARTHEST:
            raise FormatError(
                f"config.json: relative_attention_num_buckets {self.buckets} and "
                f"relative_attention_max_distance {self.farthest} do not fit; supported: 4 to "
                f"{FARTHEST} buckets, and a larger distance up to {FARTHEST}"
            )


def buckets_of(spec: RelativeSpec, both_ways: bool) -> npt.NDArray[np.int64]:
    """The bucket of each distance: of key minus query from -farthest to farthest if `both_ways`,
    else of query minus key from 0 to farthest. Half of them are exact, the others logarithmic.
    """
    count = spec.buckets // 2 if both_ways else spec.buckets
    exact = count // 2
    far = np.arange(spec.farthest + 1)
    # In float32, as checkpoints were trained: other roundings move the borders of buckets.
    with np.errstate(divide="ignore"):
        logs = np.log(far.astype(np.float32) / np.float32(exact))
    share = logs / np.float32(math.log(spec.farthest / exact)) * np.float32(count - exact)
    coarse = exact + np.where(far < exact, 0, share).astype(np.int64)
    buckets = np.where(far < exact, far, np.minimum(coarse, count - 1))
    return np.concatenate([buckets[:0:-1], buckets + count * (far > 0)]) if both_ways else buckets


class RelativeBias(nn.Embedding):
    """The bias of each bucket of distances and head (Raffel et al., 2019): (buckets, heads)."""

    def __init__(self, spec: RelativeSpec, heads: int, both_ways: bool) -> None:
        super().__init__(spec.buckets, heads)
        self.spec, self.both_ways = spec, both_ways
        self.table = buckets_of(spec, both_ways)

    def bias(self, queries: int, keys: int, offset: Tensor | int) -> Tensor:
        """(1 or batch, heads, queries, keys); offset: the first query's place, (batch,) or one."""
        weight: Any = self.weight
        query_positions = ops.arange(queries, device=weight.device).unsqueeze(1)
        if not isinstance(offset, int):
            query_positions = query_positions + offset.reshape(-1, 1, 1)
        return self.of_distance(ops.arange(keys, device=weight.device) - query_positions)

    def of_distance(self, distance: Tensor) -> Tensor:
        """(1 or batch, heads, queries, keys); distance: key minus query, for one row or a batch."""
        weight: Any = self.weight
        far = self.spec.farthest
        if self.both_ways:
            index = distance.clamp(min=-far, max=far) + far
        else:
            index = (-distance).clamp(min=0, max=far)
        # A captured step computes the bias of each distance once.
        by_distance = ops.embedding(weight, tensor(self.table, device=weight.device))
        bias = ops.embedding(by_distance.contiguous(), index)
        return (bias if bias.ndim == 4 else bias.unsqueeze(0)).permute(0, 3, 1, 2)

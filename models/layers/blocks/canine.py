"""CANINE's layers (Clark et al., 2021): characters by hashes, and a deep encoder of groups of them.

A layer over the characters of one window comes first; a convolution makes a group of some of them.
The groups' states, repeated for each character, join those of the characters at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm

# What an id is multiplied by for each table of hashes.
PRIMES = (31, 43, 59, 61, 73, 97, 103, 113, 137, 149, 157, 173, 181, 193, 211, 223)


class CharEmbeddings(nn.Module):
    """The embeddings of characters: of `hashes` tables with `buckets` rows each a part."""

    def __init__(self, spec: EncoderSpec, hashes: int, buckets: int) -> None:
        self.hashes, self.buckets, width = hashes, buckets, spec.width
        for i in range(hashes):
            table = nn.Embedding(buckets, width // hashes)
            setattr(self, f"HashBucketCodepointEmbedder_{i}", table)
        self.char_position_embeddings = nn.Embedding(buckets, width)
        self.token_type_embeddings = nn.Embedding(spec.types, width)
        self.LayerNorm = make_norm(width, spec.norm)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """(batch, length) -> (batch, length, width)."""
        parts = [
            getattr(self, f"HashBucketCodepointEmbedder_{i}")((ids + 1) * prime % self.buckets)
            for i, prime in enumerate(PRIMES[: self.hashes])
        ]
        kinds: Any = self.token_type_embeddings
        positions: Any = self.char_position_embeddings.weight
        x = ops.cat(parts, -1) + (kinds.weight[0] if types is None else kinds(types))
        out: Tensor = self.dropout(self.LayerNorm(x + positions[: ids.shape[1]]))
        return out


class Convolved(nn.Module):
    """A convolution over places (batch, length, features), an activation and a norm."""

    def __init__(self, spec: EncoderSpec, inside: int, size: int, stride: int) -> None:
        self.conv = nn.Conv1d(inside, spec.width, size, stride=stride)
        self.act, self.LayerNorm = ACTIVATIONS[spec.activation], make_norm(spec.width, spec.norm)

    def convolved(self, x: Tensor) -> Tensor:
        """The activations of (batch, length, features): (batch, places, width)."""
        return self.act(self.conv(x.transpose(1, 2)).transpose(1, 2))


class Groups(Convolved):
    """Groups of `rate` characters; the first place is the first character, not the last group."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> (batch, length // rate, width)."""
        groups = self.convolved(x)
        out: Tensor = self.LayerNorm(ops.cat([x[:, :1], groups[:, :-1]], 1))
        return out


class Joined(Convolved):
    """The states of characters, of what a window of `size` has of them and of their groups."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, 2 * width) -> (batch, length, width)."""
        size = self.conv.weight.shape[-1]
        batch, _, inside = x.shape
        before, after = (
            ops.zeros(batch, count, inside, dtype=x.dtype, device=x.device)
            for count in ((size - 1) // 2, size // 2)
        )
        out: Tensor = self.LayerNorm(self.convolved(ops.cat([before, x, after], 1)))
        return out


@dataclass(frozen=True)
class Canine:
    """`layers` over groups of `rate` characters; `window`: those that the first layer sees.

    hashes: how many tables, of `buckets` rows. joined: characters that the last convolution sees.
    """

    layers: int
    rate: int
    joined: int
    hashes: int
    buckets: int
    window: int

    def put(self, model: nn.Module, spec: EncoderSpec) -> None:
        """Make the modules of `model`."""
        width = spec.width
        put(model, "char_embeddings", CharEmbeddings(spec, self.hashes, self.buckets))
        put(model, "initial_char_encoder.layer.0", EncoderLayer(spec))
        put(model, "chars_to_molecules", Groups(spec, width, self.rate, self.rate))
        for i in range(self.layers):
            put(model, f"encoder.layer.{i}", EncoderLayer(spec))
        put(model, "projection", Joined(spec, 2 * width, self.joined, 1))
        put(model, "final_char_encoder.layer.0", EncoderLayer(spec))

    def run(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """Hidden states of the characters; see `Body`."""
        chars, groups = self._grouped(model, ids, types, seen, more)
        length, all_groups = ids.shape[1], groups.shape[1]
        # The first group is that of the first character alone; the last serves those left over.
        place = (ops.arange(chars.shape[1], device=ids.device) // self.rate + 1).clamp(
            max=all_groups - 1
        )
        joined = ops.cat([chars, groups.index_select(1, place)], -1)
        x: Tensor = model.projection(joined[:, :length])
        mask = None if seen is None else seen[:, None, None, :]
        return self._layer(model, "final_char_encoder.layer.0", x, mask)

    def texts(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """The states of the groups; see `Body`."""
        return self._grouped(model, ids, types, seen, more)[1]

    def _grouped(
        self,
        model: Any,
        ids: Tensor,
        types: Tensor | None,
        seen: Tensor | None,
        more: dict[str, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """The states of the characters after the first layer, and those of the groups."""
        if more:
            raise TypeError(f"canine: {', '.join(more)} is not an input of its embeddings")
        (batch, length), rate = ids.shape, self.rate
        if length < rate:  # a group, at least
            rest = ops.zeros(batch, rate - length, dtype=ids.dtype, device=ids.device)
            real = ids * 0 + 1 if seen is None else seen.to(ids.dtype)
            ids, seen = ops.cat([ids, rest], 1), ops.cat([real, rest], 1) != 0
            types = None if types is None else ops.cat([types, rest], 1)
            length = rate
        block = ops.arange(length, device=ids.device) // self.window
        mask = (block.unsqueeze(0) == block.unsqueeze(1)).reshape(1, 1, length, length)
        if seen is not None:
            mask = mask & seen[:, None, None, :]
        single = seen is None and length <= self.window
        x: Tensor = model.char_embeddings(ids, types)
        x = self._layer(model, "initial_char_encoder.layer.0", x, None if single else mask)
        groups: Tensor = model.chars_to_molecules(x)
        over = None
        if seen is not None:
            count = groups.shape[1]
            pairs = seen[:, : count * rate].to(x.dtype).reshape(batch, count, rate)
            over = (pairs.amax(-1) > 0)[:, None, None, :]
        for i in range(self.layers):
            groups = self._layer(model, f"encoder.layer.{i}", groups, over)
        return x, groups

    def _layer(self, model: Any, path: str, x: Tensor, mask: Tensor | None) -> Tensor:
        out: Tensor = model.get_submodule(path)(x, EncoderContext(mask, None, {}), 0)
        return out

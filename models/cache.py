"""Cache: the keys and values of the tokens that a model has read, with a length for each row."""

from __future__ import annotations

from rushlight.core import ops
from rushlight.core.backends import Device
from rushlight.core.convert import tensor
from rushlight.core.dtype import DType, int64
from rushlight.core.ops.attention import cache_write_
from rushlight.core.tensor import Tensor

# Capacities grow through these steps, so that few shapes are ever seen.
SMALLEST = 256


class Cache:
    """Keys and values (batch, kv_heads, capacity, features) of every layer.

    lengths: (batch,) int64, how many tokens each row holds. Rows may differ: what lies behind a
    row's length is never looked at, and the next write goes over it. `longest` is the largest
    length as a Python number, so that nothing is read back from the device.
    """

    def __init__(
        self,
        layers: int,
        batch: int,
        kv_heads: int,
        features: int,
        *,
        limit: int,
        device: Device | str = "cpu",
        dtype: DType | str = "float32",
    ) -> None:
        self.layers, self.batch = layers, batch
        self.kv_heads, self.features = kv_heads, features
        self.limit, self.dtype = limit, dtype
        self.capacity, self.longest, self.static = 0, 0, False
        self.lengths = ops.zeros(batch, dtype=int64, device=device)
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    @property
    def device(self) -> Device:
        """The device of the keys and values."""
        return self.lengths.device

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values."""
        return sum(t.nbytes for t in (*self.keys, *self.values))

    def reserve(self, more: int) -> None:
        """Make room for `more` tokens per row. ValueError past the model's context."""
        need = self.longest + more
        if need > self.limit:
            raise ValueError(
                f"cache: {need} tokens do not fit the context of {self.limit}; shorten the "
                "prompt, or let generation shift the context"
            )
        if need <= self.capacity:
            return
        size = max(SMALLEST, self.capacity)
        while size < need:
            size *= 2
        size = min(size, self.limit)
        empty: list[Tensor | None] = [None] * self.layers
        self.keys = [self._grown(t, size) for t in self.keys or empty]
        self.values = [self._grown(t, size) for t in self.values or empty]
        self.capacity = size  # last: whoever is interrupted before grows them again

    def _grown(self, old: Tensor | None, capacity: int) -> Tensor:
        shape = (self.batch, self.kv_heads, capacity, self.features)
        new = ops.zeros(shape, dtype=self.dtype, device=self.device)
        if old is not None and self.longest:
            new[:, :, : self.longest] = old[:, :, : self.longest]
        return new

    def positions(self, count: int) -> Tensor:
        """(batch, count): the positions of the next tokens of each row."""
        return self.lengths.unsqueeze(1) + ops.arange(count, device=self.device)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put the next tokens' keys and values behind each row; gives all that is held.

        Both (batch, kv_heads, n, features); `reserve(n)` comes before, `advance` after all layers.
        """
        end = self.capacity if self.static else self.longest + keys.shape[2]
        cache_write_(self.keys[layer], keys, self.lengths)
        cache_write_(self.values[layer], values, self.lengths)
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def advance(self, count: int, real: Tensor | None = None) -> None:
        """Count the written tokens in: `count` for every row, or `real` (batch,) of each."""
        self.lengths.add_(count if real is None else real)
        self.longest += count

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens of each row."""
        if length < 0:
            raise ValueError(f"truncate: length is {length}; it must not be negative")
        self.lengths.copy_(ops.minimum(self.lengths, length))
        self.longest = min(self.longest, length)

    def fork(self) -> Cache:
        """A copy that goes on by itself from here."""
        new = Cache(
            self.layers, self.batch, self.kv_heads, self.features,
            limit=self.limit, device=self.device, dtype=self.dtype,
        )  # fmt: skip
        new.capacity, new.longest, new.static = self.capacity, self.longest, self.static
        new.lengths = self.lengths.clone()
        new.keys = [t.clone() for t in self.keys]
        new.values = [t.clone() for t in self.values]
        return new

    def set_lengths(self, lengths: list[int]) -> None:
        """Say how many tokens each row holds, where rows were written with padding."""
        self.lengths.copy_(tensor(lengths, dtype=int64, device=self.device))
        self.longest = max(lengths, default=0)

"""Attention within blocks of a long text, as encoders of long texts have it."""

from __future__ import annotations

from rushlight.core import ops
from rushlight.core.tensor.tensor import Tensor


def padded(t: Tensor, left: int, right: int) -> Tensor:
    """(batch, heads, length, features) with zeros before and after."""

    def zeros(count: int) -> Tensor:
        return ops.zeros(*t.shape[:2], count, t.shape[3], dtype=t.dtype, device=t.device)

    parts = [zeros(left)] * bool(left) + [t] + [zeros(right)] * bool(right)
    return ops.cat(parts, 2) if len(parts) > 1 else t


def in_blocks(t: Tensor, size: int, left: int = 0) -> Tensor:
    """(batch, heads, length, features) -> (batch * blocks, heads, size, features).

    The first block begins with `left` zeros, and the last one is filled with them.
    """
    t = padded(t, left, -(t.shape[2] + left) % size)
    batch, heads, length, features = t.shape
    blocks = t.reshape(batch, heads, length // size, size, features).permute(0, 2, 1, 3, 4)
    return blocks.reshape(-1, heads, size, features)


def joined(blocks: Tensor, batch: int, length: int, left: int = 0) -> Tensor:
    """Blocks (batch * blocks, heads, size, features) -> (batch, heads, length, features)."""
    _, heads, size, features = blocks.shape
    rows = blocks.reshape(batch, -1, heads, size, features).permute(0, 2, 1, 3, 4)
    return rows.reshape(batch, heads, -1, features)[:, :, left : left + length]


def with_neighbours(t: Tensor, size: int) -> Tensor:
    """Each block with the ones before and after it: (batch * blocks, heads, 3 * size, features)."""
    count = -(-t.shape[2] // size)
    around = padded(t, size, count * size - t.shape[2] + size)
    parts = [in_blocks(around[:, :, i * size : (i + count) * size], size) for i in range(3)]
    return ops.cat(parts, 2)


def in_each(t: Tensor, blocks: int) -> Tensor:
    """(batch, ...) for every block of a row: (batch * blocks, ...)."""
    each = t.unsqueeze(1).expand(t.shape[0], blocks, *t.shape[1:])
    return each.reshape(-1, *t.shape[1:])

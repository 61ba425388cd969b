"""torch.nn.attention.flex_attention: attention whose scores and masks are functions of places.

The functions are called once, with index tensors that broadcast: batch (n, 1, 1, 1), head
(h, 1, 1), query (q, 1), key (k,). All scores are computed; a mask saves no work. Dong et al., 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight.core.functional.declared as f
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.tensor.convert import as_tensor
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "create_nested_block_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """True everywhere."""
    return batch.new_ones((), dtype="bool")


def _places(b: int, h: int, q: int, k: int, device: Any) -> tuple[Tensor, ...]:
    shapes = ((b, 1, 1, 1), (h, 1, 1), (q, 1), (k,))
    return tuple(f.arange(shape[0], device=device).reshape(shape) for shape in shapes)


def _seen(mask: BlockMask) -> Tensor:
    n, heads, queries, keys = mask.shape
    return create_mask(mask.mask_mod, n, heads, queries, keys)


class BlockMask:
    """A mask as a function of places, with the lengths it was made for."""

    def __init__(self, mask_mod: Mask, shape: tuple[int, ...], block_size: Any = 128) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE = mask_mod, shape, block_size
        self.seq_lengths = shape[-2:]

    def to_dense(self) -> Tensor:
        """1 where a block of BLOCK_SIZE queries and keys has anything to see, else 0: int32."""
        size = self.BLOCK_SIZE
        rows, cols = (size, size) if isinstance(size, int) else size
        seen = _seen(self).float()
        pooled: Tensor = max_pool2d(seen, (rows, cols), ceil_mode=True)
        return pooled.to("int32")

    def to(self, device: Any) -> BlockMask:
        """The same: the function makes its tensors where the scores are."""
        return self

    def sparsity(self) -> float:
        """The share of pairs that are not seen, in percent."""
        seen = _seen(self).float()
        return 100 * (1 - float(seen.mean()))

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_mask(
    mod_fn: Callable[..., Tensor],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = "cpu",
    separate_full_blocks: bool = False,
) -> Tensor:
    """What mod_fn(b, h, q, kv) gives at all places: bool (B, H, Q_LEN, KV_LEN)."""
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    seen = mod_fn(*_places(*shape, device))
    return f.broadcast_to(as_tensor(seen, dtype="bool", device=device), shape).clone()


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = "cpu",
    BLOCK_SIZE: Any = 128,
    _compile: bool = False,
    **options: Any,
) -> BlockMask:
    """The mask for `flex_attention`: mask_mod(b, h, q, kv) is True where a key is seen."""
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), BLOCK_SIZE)


create_nested_block_mask = create_block_mask


def and_masks(*mask_mods: Mask) -> Mask:
    """True where all of them are."""

    def both(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        seen = b.new_ones((), dtype="bool")
        for mask in mask_mods:
            seen = seen & mask(b, h, q, k)
        return seen

    return both


def or_masks(*mask_mods: Mask) -> Mask:
    """True where any of them is."""

    def either(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        seen = b.new_zeros((), dtype="bool")
        for mask in mask_mods:
            seen = seen | mask(b, h, q, k)
        return seen

    return either


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Score | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
) -> Any:
    """softmax(score_mod(q k^T * scale)) v for (n, heads, length, features).

    score_mod(score, b, h, q, kv) changes scores of all places at once. enable_gqa: a head of keys
    serves several of queries. A query that sees no key gives zeros. return_lse: also the log of the
    sum of the scores' exponentials, (n, heads, queries).
    """
    n, heads, queries, features = query.shape
    if enable_gqa and heads != key.shape[1]:
        group = heads // key.shape[1]
        key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    if key.shape[1] != heads:
        raise ShapeError(
            f"flex_attention: query has {heads} heads, key {key.shape[1]}; give "
            "enable_gqa=True where a head of keys serves several"
        )
    keys = key.shape[2]
    scores = (query @ key.transpose(-2, -1)) * (features**-0.5 if scale is None else scale)
    places = _places(n, heads, queries, keys, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if block_mask is not None:
        seen = f.broadcast_to(block_mask.mask_mod(*places), scores.shape)
        scores = scores.masked_fill(~seen, -math.inf)
    total = scores.logsumexp(-1, keepdim=True)
    empty = total == -math.inf
    weights = (scores - total.masked_fill(empty, 0.0)).exp()
    out = (weights.to(value.dtype) @ value).to(query.dtype)
    return (out, total.squeeze(-1)) if return_lse else out

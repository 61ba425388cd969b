"""Sequences of different lengths: padded, and packed as torch packs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rushlight.core.functional.creation import of_data
from rushlight.core.functional.joining import stack
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor


class PackedSequence(NamedTuple):
    """The steps of all sequences one after another, the longest sequence first.

    data: (steps, ...). batch_sizes: (length,) int64, how many sequences have each step.
    sorted_indices, unsorted_indices: the order of the sequences, and the way back, or None.

    Making one checks nothing and raises nothing; use `pack_padded_sequence`.
    """

    data: Tensor
    batch_sizes: Any = None
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **options: Any) -> PackedSequence:
        """The data in another dtype or on another device; the indices follow to a device."""
        data = self.data.to(*args, **options)
        if data is self.data:
            return self
        orders = [
            None if i is None else i.to(data.device)
            for i in (self.sorted_indices, self.unsorted_indices)
        ]
        return PackedSequence(data, self.batch_sizes, orders[0], orders[1])

    def cpu(self) -> PackedSequence:
        """`to("cpu")`."""
        return self.to("cpu")

    def float(self) -> PackedSequence:
        """`to("float32")`."""
        return self.to("float32")

    def double(self) -> PackedSequence:
        """`to("float64")`."""
        return self.to("float64")

    def half(self) -> PackedSequence:
        """`to("float16")`."""
        return self.to("float16")

    def long(self) -> PackedSequence:
        """`to("int64")`."""
        return self.to("int64")

    def int(self) -> PackedSequence:
        """`to("int32")`."""
        return self.to("int32")

    def pin_memory(self) -> PackedSequence:
        """The same: no device here copies pinned memory faster."""
        return self

    def is_pinned(self) -> bool:
        """False."""
        return False

    @property
    def is_cuda(self) -> bool:
        """False."""
        return False


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (length, ...) in one tensor (longest, n, ...), or (n, longest, ...).

    `sequences` differ in length alone. `batch_first`: (n, longest, ...). `padding_value` fills the
    "right" or "left" end, as `padding_side` says. Raises ValueError for no sequences, another side,
    or sizes that differ elsewhere.
    """
    if not sequences:
        raise ValueError("pad_sequence: no sequences to pad")
    if padding_side not in ("right", "left"):
        raise ValueError(f'pad_sequence: padding_side is {padding_side!r}; "right" or "left"')
    most = max(x.shape[0] for x in sequences)
    rows = []
    for x in sequences:
        rest = x.new_full((most - x.shape[0], *x.shape[1:]), padding_value)
        rows.append(cat([x, rest] if padding_side == "right" else [rest, x]))
    return stack(rows, 0 if batch_first else 1)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The steps of padded sequences (length, n, ...) that are within their lengths.

    ValueError for lengths that are not positive, or not falling where `enforce_sorted`.

    `input` holds the sequences, `batch_first`: (n, length, ...); `lengths` is a list or a tensor
    (n,).
    """
    sizes = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    x = input.transpose(0, 1) if batch_first else input
    if len(sizes) != x.shape[1] or min(sizes, default=0) < 1 or max(sizes) > x.shape[0]:
        raise ValueError(f"pack_padded_sequence: lengths {sizes} do not fit {tuple(x.shape)}")
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    if enforce_sorted:
        if order != list(range(len(sizes))):
            raise ValueError("pack_padded_sequence: lengths must fall; pass enforce_sorted=False")
        first = back = None
    else:
        first = of_data(order, device=x.device)
        back = of_data(sorted(range(len(order)), key=order.__getitem__), device=x.device)
        x = x.index_select(1, first)
    counts = [sum(n > t for n in sizes) for t in range(max(sizes))]
    data = cat([x[t, :n] for t, n in enumerate(counts)])
    return PackedSequence(data, of_data(counts, device="cpu"), first, back)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(padded (length, n, ...), lengths (n,)) of a packed sequence, in its first order.

    `batch_first`: (n, length, ...). `padding_value` fills the ends. `total_length` is the least
    length. Raises nothing of its own.
    """
    counts = [int(n) for n in sequence.batch_sizes.tolist()]
    n, data, start, steps = counts[0], sequence.data, 0, []
    for count in counts:
        rows = data[start : start + count]
        rest = data.new_full((n - count, *data.shape[1:]), padding_value)
        steps.append(cat([rows, rest]) if count < n else rows)
        start += count
    for _ in range((total_length or len(counts)) - len(counts)):
        steps.append(data.new_full((n, *data.shape[1:]), padding_value))
    out = stack(steps)
    lengths = of_data([sum(c > i for c in counts) for i in range(n)], device="cpu")
    if sequence.unsorted_indices is not None:
        out = out.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return out.transpose(0, 1) if batch_first else out, lengths


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """`pack_padded_sequence` of sequences (length, ...)."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, False, enforce_sorted)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Any, batch_first: bool = False
) -> list[Tensor]:
    """The sequences (length, ...) of padded ones (longest, n, ...).

    `padded_sequences` with `lengths` (n,); `batch_first`: (n, longest, ...). Raises ValueError for
    another count of lengths.
    """
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [row[: int(n)] for row, n in zip(x.unbind(0), counts, strict=True)]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (length, ...) of a packed one, in their first order."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, True), batch_first=True)

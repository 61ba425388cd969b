"""Tensors of a checkpoint that the model has in other parts, and experts in blocks of MXFP4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.basis.dtype import uint8
from rushlight.core.basis.errors import LoadError
from rushlight.core.basis.quantized import mxfp4
from rushlight.core.functional.joining import stack
from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.models.families.family import Family


@dataclass(frozen=True)
class Split:
    """The ends of a tensor's parts' names, and what makes them; `join` undoes it."""

    parts: Mapping[str, Callable[[Tensor], Tensor]]
    join: Callable[..., Tensor]


Parts = Mapping[str, Split]  # by the end of a tensor's name
BLOCKS, SCALES = "_blocks", "_scales"


def parts_of(family: Family, name: str) -> dict[str, Callable[[Tensor], Tensor]]:
    """The names of a tensor's parts in the model, and what makes them; {} if it has none."""
    for end, kind in family.parts.items():
        if name.endswith(end):
            return {name.removesuffix(end) + ending: take for ending, take in kind.parts.items()}
    return {}


def join(family: Family, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a model as a checkpoint has them: parts are joined, one whole at a time."""
    ends = {ending: (end, kind) for end, kind in family.parts.items() for ending in kind.parts}
    for name, t in tensors.items():
        ending_of_part = next((candidate for candidate in ends if name.endswith(candidate)), None)
        if ending_of_part is None:
            yield name, t
            continue
        (end, kind), before = ends[ending_of_part], name.removesuffix(ending_of_part)
        if ending_of_part == next(iter(kind.parts)):
            yield before + end, kind.join(*(tensors[before + suffix] for suffix in kind.parts))


def split(family: Family, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a checkpoint, with those that the family has in parts replaced by them."""
    by_name: dict[str, Tensor] = {}
    for name, t in join_blocks(tensors).items() if family.parts else tensors.items():
        parts = parts_of(family, name)
        try:
            by_name |= (
                {part_name: take(t) for part_name, take in parts.items()} if parts else {name: t}
            )
        except (LookupError, TypeError, ValueError) as error:
            raise LoadError(
                f'"{name}" is {t.dtype.name} {t.shape}, which has no parts: {error}'
            ) from error
    return by_name


def join_blocks(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, with each X_blocks and X_scales as one tensor X of MXFP4."""
    joined = dict(tensors)
    for name in tensors:
        stem = name.removesuffix(BLOCKS)
        if stem != name and stem + SCALES in tensors:
            joined[stem] = _blocks(stem, joined.pop(name), joined.pop(stem + SCALES))
    return joined


def _blocks(name: str, blocks: Tensor, scales: Tensor) -> Tensor:
    """(..., rows, n, 16) of bytes and (..., rows, n) of scales -> (..., rows, 32 n) of MXFP4.

    The file's bytes hold neighbouring elements, those of a block element i and i + 16.
    """
    fits = blocks.dtype is scales.dtype is uint8 and blocks.ndim > 2
    if not fits or blocks.shape != (*scales.shape, 16):
        raise LoadError(
            f"{name}{BLOCKS} is {blocks.dtype.name} {blocks.shape}, {name}{SCALES} "
            f"{scales.dtype.name} {scales.shape}; blocks are uint8 of 16 bytes a scale"
        )
    halves = blocks.numpy().reshape(-1, 16)
    packed = np.empty((len(halves), 17), np.uint8)
    packed[:, 0] = scales.numpy().reshape(-1)
    packed[:, 1::2] = halves[:, :8] & 15 | halves[:, 8:] << 4
    packed[:, 2::2] = halves[:, :8] >> 4 | halves[:, 8:] & 240
    shape = (*scales.shape[:-1], scales.shape[-1] * mxfp4.block)
    return Tensor.from_buffer(packed.reshape(-1), mxfp4, shape)


def swap(t: Tensor) -> Tensor:
    """A stack (experts, in, out) as (experts, out, in); blocks are stored so."""
    return t if t.dtype.kind == "q" else t.transpose(1, 2).contiguous()


def _rows(which: Callable[[int], slice]) -> Callable[[Tensor], Tensor]:
    """Of the rows of each expert, (experts, in, rows) or (experts, rows), those of a slice."""

    def part(t: Tensor) -> Tensor:
        of = t if t.dtype.kind == "q" or t.ndim == 2 else t.transpose(1, 2)
        return of[:, which(of.shape[1])].contiguous()

    return part


def _experts(gate: Callable[[int], slice], up: Callable[[int], slice], dim: int) -> Parts:
    both = {"gate_proj": _rows(gate), "up_proj": _rows(up)}

    def join(first: Tensor, second: Tensor) -> Tensor:
        rows = stack([first, second], dim).reshape(first.shape[0], -1, *first.shape[2:])
        return rows if rows.ndim == 2 else swap(rows)

    return {
        "experts.gate_up_proj": Split({f"experts.{n}.weight": f for n, f in both.items()}, join),
        "experts.gate_up_proj_bias": Split({f"experts.{n}.bias": f for n, f in both.items()}, join),
        "experts.down_proj": Split({"experts.down_proj.weight": swap}, swap),
        "experts.down_proj_bias": Split({"experts.down_proj.bias": lambda t: t}, lambda t: t),
    }


def _in_place(rows: Tensor) -> Tensor:
    """Rows of each expert where they lie, so that a mapped file's pages stay; blocks are copied."""
    return rows.contiguous() if rows.dtype.kind == "q" else rows


def gate_and_up(whole: str, inside: str) -> Parts:
    """The parts of a stack (experts, rows, in) with the rows of gate, then those of up."""
    both = {
        f"{inside}gate_proj.weight": lambda t: _in_place(t[:, : t.shape[1] // 2]),
        f"{inside}up_proj.weight": lambda t: _in_place(t[:, t.shape[1] // 2 :]),
    }
    return {whole: Split(both, lambda gate, up: cat([gate, up], 1))}


def stacked_experts() -> Parts:
    """The parts of stacks (experts, out, in), with the rows of gate, then those of up."""
    return {
        **gate_and_up("mlp.experts.gate_up_proj", "mlp.experts."),
        **renamed("mlp.experts.down_proj", "mlp.experts.down_proj.weight"),
    }


def gate_and_up_rows(whole: str, inside: str) -> Parts:
    """The parts of a matrix (rows, in) with the rows of gate, then those of up."""
    both = {
        f"{inside}gate_proj.weight": lambda t: t[: t.shape[0] // 2].contiguous(),
        f"{inside}up_proj.weight": lambda t: t[t.shape[0] // 2 :].contiguous(),
    }
    return {whole: Split(both, lambda gate, up: cat([gate, up]))}


def renamed(theirs: str, ours: str) -> Parts:
    """A tensor that a checkpoint has at another place: the end of its name there, and here."""
    return {theirs: Split({ours: lambda t: t}, lambda t: t)}


def experts_in_turn() -> Parts:
    """The parts of stacks (experts, in, out) in which rows of gate and up take turns."""
    return _experts(lambda n: slice(0, n, 2), lambda n: slice(1, n, 2), 2)


def experts_in_halves() -> Parts:
    """The parts of stacks (experts, in, out) with the rows of gate, then those of up."""
    return _experts(lambda n: slice(n // 2), lambda n: slice(n // 2, n), 1)

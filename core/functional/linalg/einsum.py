"""Sums of products over several dims: einsum and tensordot."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.linalg.checks import product_of
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import is_tensor
from rushlight.core.ops.declare import public

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@casts(cpu="inside", accelerator="widest")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over `dims`: a number of last dims of a and first of b, or two lists.

    Raises ShapeError for sizes that differ, IndexError for a dim that there is not.
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: dims is {dims}; {a.shape} and {b.shape} have fewer")
        left = list(range(a.ndim - dims, a.ndim))
        right = list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
        left = [normalize_dim("tensordot", d, a.shape) for d in left]
        right = [normalize_dim("tensordot", d, b.shape) for d in right]
    if len(left) == len(right):
        for i, j in zip(left, right, strict=True):  # a dim of size one is summed over, as in torch
            if a.shape[i] == 1 != b.shape[j]:
                b = b.sum(j, keepdim=True, dtype=b.dtype)
            elif b.shape[j] == 1 != a.shape[i]:
                a = a.sum(i, keepdim=True, dtype=a.dtype)
    if [a.shape[d] for d in left] != [b.shape[d] for d in right]:
        raise ShapeError(f"tensordot: dims {left} of {a.shape} and {right} of {b.shape} differ")
    free_a = [d for d in range(a.ndim) if d not in left]
    free_b = [d for d in range(b.ndim) if d not in right]
    count = 1
    for d in left:
        count *= a.shape[d]
    shape = [a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]
    rows, columns = 1, 1
    for d in free_a:
        rows *= a.shape[d]
    for d in free_b:
        columns *= b.shape[d]
    x = a.permute(*free_a, *left).reshape(rows, count)
    y = b.permute(*right, *free_b).reshape(count, columns)
    return product_of("tensordot", x, y).reshape(*shape)


def _labels(equation: str, count: int) -> tuple[list[str], str | None]:
    """The operands' letters, and those of the result if they are given."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    letters = {*string.ascii_letters, ",", "."}
    if len(parts) != count or not {*left, *right} <= letters:
        raise ValueError(f"einsum: {equation!r} does not describe {count} operands")
    return parts, right if arrow else None


def _operand(x: Tensor, letters: str, rank: int, order: str) -> tuple[Tensor, str]:
    """Repeated letters as diagonals, and the dims of "..." as letters from `order`."""
    from rushlight.core.functional.diagonals import diagonal

    if "..." in letters:
        free = x.ndim - len(letters.replace("...", ""))
        letters = letters.replace("...", order[rank - free : rank] if free > 0 else "")
    if len(letters) != x.ndim:
        raise ShapeError(f"einsum: {letters!r} does not fit the shape {x.shape}")
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            i = letters.index(letter)
            j = letters.index(letter, i + 1)
            x = diagonal(x, 0, i, j)
            letters = letters[:i] + letters[i + 1 : j] + letters[j + 1 :] + letter
    return x, letters


def _spelled(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation of operands that are followed by lists of numbers, and the operands."""
    letters = string.ascii_uppercase + string.ascii_lowercase  # in the order of their numbers

    def spell(labels: Any) -> str:
        if not isinstance(labels, list | tuple):
            raise TypeError(
                f"einsum: an operand is followed by a {type(labels).__name__}; it must "
                "be a list of numbers"
            )
        text = ""
        for label in labels:
            if label is not Ellipsis and not (isinstance(label, int) and 0 <= label < len(letters)):
                raise ValueError(
                    f"einsum: a list holds {label!r}; it must hold numbers from 0 to "
                    f"{len(letters) - 1}, or Ellipsis"
                )
            text += "..." if label is Ellipsis else letters[label]
        return text

    pairs = len(operands) // 2
    terms = ",".join(spell(operands[2 * i + 1]) for i in range(pairs))
    result = f"->{spell(operands[-1])}" if len(operands) % 2 else ""
    return terms + result, tuple(operands[2 * i] for i in range(pairs))


@public
@casts(cpu="inside", accelerator="low")
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products by letters: "bij,bjk->bik". Without "->" the letters that occur once.

    "..." stands for dims that broadcast; a letter that is named twice takes a diagonal. Operands
    are multiplied from left to right, two at a time, as products of matrices. In place of letters
    each operand may be followed by a list of numbers from 0 to 51 (Ellipsis for "..."), and a last
    list names the result: einsum(a, [0, 1], b, [1, 2], [0, 2]). ValueError for what does not fit.
    """
    if is_tensor(equation):
        equation, operands = _spelled((equation, *operands))
    if not isinstance(equation, str) or not operands:
        raise TypeError(
            "einsum: give an equation and tensors, or tensors each followed by a list "
            f"of numbers, not a {type(equation).__name__} and {len(operands)} more"
        )
    inputs: Sequence[Tensor] = operands[0] if isinstance(operands[0], list | tuple) else operands
    parts, wanted = _labels(equation, len(inputs))
    ranks = [
        x.ndim - len(p.replace("...", "")) for x, p in zip(inputs, parts, strict=True) if "..." in p
    ]
    rank = max(ranks, default=0)
    used = set("".join(parts)) | set(wanted or "")
    order = "".join([c for c in string.ascii_letters if c not in used][:rank])
    every = [_operand(x, p, rank, order) for x, p in zip(inputs, parts, strict=True)]
    letters = "".join(p for _, p in every)
    if wanted is None:
        said = "".join(parts)
        single = sorted(c for c in set(letters) - set(order) if said.count(c) == 1)
        wanted = order + "".join(single)
    wanted = wanted.replace("...", order)
    if len(set(wanted)) != len(wanted) or not set(wanted) <= set(letters):
        raise ValueError(f"einsum: {equation!r} names a letter of the result twice or not before")
    x, mine = every[0]
    for i, (y, other) in enumerate(every[1:], 1):
        later = set(wanted).union(*(p for _, p in every[i + 1 :]))
        x, mine = _pair(x, mine, y, other, later)
    gone = [d for d, c in enumerate(mine) if c not in wanted]
    x = x.sum(gone) if gone else x
    mine = "".join(c for c in mine if c in wanted)
    return x.permute(*(mine.index(c) for c in wanted)) if wanted else x


def _pair(x: Tensor, mine: str, y: Tensor, other: str, later: set[str]) -> tuple[Tensor, str]:
    """The product of two operands; letters that nothing needs later are summed."""
    for letters, which in ((mine, 0), (other, 1)):
        rest = other if which == 0 else mine
        gone = [d for d, c in enumerate(letters) if c not in later and c not in rest]
        if gone and which == 0:
            x = x.sum(gone)  # small integers become int64, as in torch
            y = y.to(x.dtype) if x.dtype.kind in "ui" else y
            mine = "".join(c for d, c in enumerate(letters) if d not in gone)
        elif gone:
            y = y.sum(gone)
            x = x.to(y.dtype) if y.dtype.kind in "ui" else x
            other = "".join(c for d, c in enumerate(letters) if d not in gone)
    size = dict(zip(mine, x.shape, strict=True))
    for c, n in zip(other, y.shape, strict=True):
        if size.setdefault(c, n) == 1:
            size[c] = n
        if n not in (1, size[c]):
            raise ShapeError(f"einsum: {c!r} is {size[c]} in one operand and {n} in another")
    batch = [c for c in mine if c in other and c in later]
    summed = [c for c in mine if c in other and c not in later]
    left = [c for c in mine if c not in other]
    right = [c for c in other if c not in mine]

    def arranged(t: Tensor, letters: str, groups: tuple[list[str], ...]) -> Tensor:
        t = t.expand(*(size[c] for c in letters))
        t = t.permute(*(letters.index(c) for group in groups for c in group))
        shape = []
        for group in groups[1:] if batch else groups[1:]:
            count = 1
            for c in group:
                count *= size[c]
            shape.append(count)
        return t.reshape(*(size[c] for c in batch), *shape)

    a = arranged(x, mine, (batch, left, summed))
    b = arranged(y, other, (batch, summed, right))
    out = product_of("einsum", a, b)
    return out.reshape(*(size[c] for c in [*batch, *left, *right])), "".join(
        [*batch, *left, *right]
    )

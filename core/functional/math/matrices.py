"""Products of vectors and matrices under torch's names, and einsum."""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.creation import ones_like
from rushlight.core.functional.pieces import stack
from rushlight.core.ops.autocast import is_autocast_enabled
from rushlight.core.ops.common import TensorLike, is_tensor
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.matmul import matmul
from rushlight.core.ops.unary import turned

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _check(name: str, dims: int, **tensors: Tensor) -> None:
    for what, x in tensors.items():
        if x.ndim != dims:
            raise ShapeError(f"{name}: {what} is {x.shape}; it must have {dims} dims")


def _product(name: str, a: Tensor, b: Tensor) -> Tensor:
    if a.dtype is not b.dtype and not is_autocast_enabled(a.device.type):
        raise TypeMismatch(
            f"{name}: {a.dtype.name} and {b.dtype.name} differ; convert one with .to()"
        )
    return matmul(a, b)


@public
@method()
def mm(x: Tensor, mat2: Tensor) -> Tensor:
    """The product of matrices (n, k) and (k, m): (n, m)."""
    _check("mm", 2, x=x, mat2=mat2)
    return _product("mm", x, mat2)


@public
@method()
def bmm(x: Tensor, mat2: Tensor) -> Tensor:
    """Products of (b, n, k) and (b, k, m): (b, n, m)."""
    _check("bmm", 3, x=x, mat2=mat2)
    if x.shape[0] != mat2.shape[0]:
        raise ShapeError(f"bmm: {x.shape} and {mat2.shape} differ in the number of matrices")
    return _product("bmm", x, mat2)


@public
@method()
def mv(x: Tensor, vec: Tensor) -> Tensor:
    """A matrix (n, k) times a vector (k,): (n,)."""
    _check("mv", 2, x=x)
    _check("mv", 1, vec=vec)
    return _product("mv", x, vec)


@public
@method()
def dot(x: Tensor, tensor: Tensor) -> Tensor:
    """The sum of products of two vectors of one length, 0-d."""
    _check("dot", 1, x=x, tensor=tensor)
    if x.shape != tensor.shape:
        raise ShapeError(f"dot: lengths {x.shape[0]} and {tensor.shape[0]} differ")
    return _product("dot", x, tensor)


@public
@method()
def vdot(x: Tensor, other: Tensor) -> Tensor:
    """`dot` of the conjugates of x, and `other`."""
    return dot(turned(x), other)


@public
@method()
def outer(x: Tensor, vec2: Tensor) -> Tensor:
    """All products of two vectors: (n, m)."""
    _check("outer", 1, x=x, vec2=vec2)
    return x.unsqueeze(1) * vec2


@public
@method()
def inner(x: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dims; plain products where one is 0-d."""
    if not x.ndim or not other.ndim:
        return x * other
    return tensordot(x, other, ([-1], [-1]))


def _added(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    if product.dtype.category < 2 and x.dtype.category < 2:
        if product.dtype.name == "bool":  # sums of truths are truths
            beta, alpha = bool(beta), bool(alpha)
            return (x & bool(beta)) | (product & bool(alpha))
        beta, alpha = int(beta), int(alpha)
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # nan and inf in x do not count
        return product.expand(*product.shape)
    return (x if beta == 1 else x * beta) + product


@public
@method()
def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * mat1 @ mat2."""
    return _added(x, mm(mat1, mat2), beta, alpha)


@public
@method()
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * mat @ vec."""
    return _added(x, mv(mat, vec), beta, alpha)


@public
@method()
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * outer(vec1, vec2)."""
    return _added(x, outer(vec1, vec2), beta, alpha)


@public
@method()
def baddbmm(
    x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * x + alpha * bmm(batch1, batch2)."""
    return _added(x, bmm(batch1, batch2), beta, alpha)


@public
@method()
def addbmm(
    x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * x + alpha * the sum of bmm(batch1, batch2) over the batch."""
    return _added(x, bmm(batch1, batch2).sum(0, dtype=batch1.dtype), beta, alpha)


@public
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, from the left."""
    return list(accumulate(matrices, mm))[-1]


@public
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over `dims`: a number of last dims of a and first of b, or two lists."""
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
    return _product("tensordot", x, y).reshape(*shape)


def _labels(equation: str, count: int) -> tuple[list[str], str | None]:
    """The operands' letters, and those of the result if they are given."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    letters = {*string.ascii_letters, ",", "."}
    if len(parts) != count or not {*left, *right} <= letters:
        raise ValueError(f"einsum: {equation!r} does not describe {count} operands")
    return parts, right if arrow else None


def _operand(x: Tensor, part: str, rank: int, order: str) -> tuple[Tensor, str]:
    """Repeated letters as diagonals, and the dims of "..." as letters from `order`."""
    from rushlight.core.functional.array.diagonals import diagonal

    if "..." in part:
        own = x.ndim - len(part.replace("...", ""))
        part = part.replace("...", order[rank - own : rank] if own > 0 else "")
    if len(part) != x.ndim:
        raise ShapeError(f"einsum: {part!r} does not fit the shape {x.shape}")
    for letter in dict.fromkeys(part):
        while part.count(letter) > 1:
            i = part.index(letter)
            j = part.index(letter, i + 1)
            x = diagonal(x, 0, i, j)
            part = part[:i] + part[i + 1 : j] + part[j + 1 :] + letter
    return x, part


def _spelled(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation of operands that are followed by lists of numbers, and the operands."""
    letters = string.ascii_uppercase + string.ascii_lowercase  # in the order of their numbers

    def spell(labels: Any) -> str:
        if not isinstance(labels, list | tuple):
            raise TypeError(f"einsum: an operand is followed by a {type(labels).__name__}; it must "
                            "be a list of numbers")  # fmt: skip
        text = ""
        for label in labels:
            if label is not Ellipsis and not (isinstance(label, int) and 0 <= label < len(letters)):
                raise ValueError(f"einsum: a list holds {label!r}; it must hold numbers from 0 to "
                                 f"{len(letters) - 1}, or Ellipsis")  # fmt: skip
            text += "..." if label is Ellipsis else letters[label]
        return text

    pairs = len(operands) // 2
    terms = ",".join(spell(operands[2 * i + 1]) for i in range(pairs))
    result = f"->{spell(operands[-1])}" if len(operands) % 2 else ""
    return terms + result, tuple(operands[2 * i] for i in range(pairs))


@public
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
        raise TypeError("einsum: give an equation and tensors, or tensors each followed by a list "
                        f"of numbers, not a {type(equation).__name__} and {len(operands)} more"
                        )  # fmt: skip
    given: Sequence[Tensor] = operands[0] if isinstance(operands[0], list | tuple) else operands
    parts, wanted = _labels(equation, len(given))
    ranks = [x.ndim - len(p.replace("...", "")) for x, p in zip(given, parts, strict=True)
             if "..." in p]  # fmt: skip
    rank = max(ranks, default=0)
    used = set("".join(parts)) | set(wanted or "")
    order = "".join([c for c in string.ascii_letters if c not in used][:rank])
    every = [_operand(x, p, rank, order) for x, p in zip(given, parts, strict=True)]
    letters = "".join(p for _, p in every)
    if wanted is None:
        said = "".join(parts)
        own = sorted(c for c in set(letters) - set(order) if said.count(c) == 1)
        wanted = order + "".join(own)
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
    out = _product("einsum", a, b)
    return out.reshape(*(size[c] for c in [*batch, *left, *right])), "".join(
        [*batch, *left, *right]
    )


@public
@method()
def kron(x: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: blocks of `other` times each element of x."""
    rank = max(x.ndim, other.ndim)
    a = x.reshape(*[1] * (rank - x.ndim), *x.shape)
    b = other.reshape(*[1] * (rank - other.ndim), *other.shape)
    wide = a.reshape(*(n for s in a.shape for n in (s, 1)))
    product = wide * b.reshape(*(n for s in b.shape for n in (1, s)))
    return product.reshape(*(i * j for i, j in zip(a.shape, b.shape, strict=True)))


@public
@method()
def cross(x: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of three elements along `dim`."""
    if dim is None:
        dim = next((d for d, n in enumerate(x.shape) if n == 3), -1)
    d = normalize_dim("cross", dim, x.shape)
    if x.shape[d] != 3 or other.shape[d] != 3:
        raise ShapeError(f"cross: dim {dim} of {x.shape} and {other.shape} must have 3 elements")
    a, b = x.unbind(d), other.unbind(d)
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return stack(parts, d)


@public
@method()
def dist(x: Tensor, other: TensorLike, p: float = 2) -> Tensor:
    """The p-norm of x - other."""
    return (x - other).norm(p)


@public
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """p-norm distances of the rows of (..., n, k) and (..., m, k): (..., n, m).

    compute_mode: whether those of p = 2 are products, which round |x|^2 where rows are near each
    other: "use_mm_for_euclid_dist" (or "donot_..."), or as it is with more than 25 rows.
    """
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
             "donot_use_mm_for_euclid_dist")  # fmt: skip
    if compute_mode not in modes:
        raise ValueError(f"cdist: compute_mode {compute_mode!r} is not supported; supported: "
                         f"{', '.join(modes)}")  # fmt: skip
    if min(x1.ndim, x2.ndim) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist: {x1.shape} and {x2.shape} must be rows of one length")
    many = max(x1.shape[-2], x2.shape[-2]) > 25 and compute_mode == modes[0]
    plain = x1.dtype is not x2.dtype or x1.dtype.itemsize < 4
    if p != 2 or plain or not (many or compute_mode == modes[1]):
        return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)
    # |a|^2 + |b|^2 - 2 a b in one product.
    a, b = ((x * x).sum(-1, True) for x in (x1, x2))
    left, right = cat([x1 * -2, a, ones_like(a)], -1), cat([x2, ones_like(b), b], -1)
    square = left @ right.transpose(-1, -2)
    if not square.requires_grad:
        return square.clamp(min=0).sqrt()
    same = square <= 0  # has no slope
    return square.masked_fill(same, 1).sqrt().masked_fill(same, 0)

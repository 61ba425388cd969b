"""vmap: a function of one sample, run once for all samples of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.core.func import tree
from rushlight.core.func.batched import Batched, spread
from rushlight.core.functional.joining import split
from rushlight.core.functional.shape import movedim
from rushlight.core.ops.join import cat
from rushlight.core.tensor import interpreter_stack
from rushlight.core.tensor.tensor import Tensor

Function = Callable[..., Any]


def vmap(
    func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Function:  # fmt: skip
    """A function that calls `func` for all samples at once; `func` sees one sample.

    in_dims: the dim of each argument along which samples lie, None for one that is the same for
    all; an int, or containers like the arguments. Keyword arguments are the same for all. out_dims:
    as in_dims, for results. randomness: what random ops do: "error", "same" for all samples,
    "different" ones. chunk_size: at most so many samples at a time. vmaps may be nested, with
    `grad` and the like around and within.

    An op without a rule for batches runs sample by sample and warns. ValueError where dims or sizes
    do not fit; RuntimeError for control flow that depends on values.
    """
    if randomness not in ("error", "same", "different"):
        raise ValueError(
            f"vmap: randomness is {randomness!r}; supported: 'error', 'same', 'different'"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size is {chunk_size}; it must be positive")

    @wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if not isinstance(in_dims, (int, tuple, list)):
            raise ValueError(f"vmap: in_dims {in_dims!r} must be an int, a tuple or a list")
        if not args:
            raise ValueError("vmap: the function was called without positional arguments")
        flat = tree.leaves(args)
        dims_in = list(in_dims) if isinstance(in_dims, list) else in_dims
        if isinstance(dims_in, (list, tuple)) and len(dims_in) != len(args):
            raise ValueError(f"vmap: in_dims has {len(dims_in)} entries for {len(args)} arguments")
        dims = tree.spread_like(
            "in_dims", dims_in, list(args) if isinstance(dims_in, list) else args
        )
        pairs = list(zip(flat, dims, strict=True))
        samples = [None if d is None else _first(x, d) for x, d in pairs]
        size = _size([x for x in samples if x is not None])
        step = size if chunk_size is None else min(chunk_size, size)
        if step == size:
            return _run(func, args, kwargs, flat, samples, size, out_dims, randomness)
        pieces = [[None] * -(-size // step) if x is None else split(x, step, 0) for x in samples]
        results = [
            _run(
                func,
                args,
                kwargs,
                flat,
                list(chunk),
                min(step, size - i * step),
                out_dims,
                randomness,
            )
            for i, chunk in enumerate(zip(*pieces, strict=True))
        ]
        ends = tree.spread_like("out_dims", out_dims, results[0])
        rows = zip(*map(tree.leaves, results), strict=True)
        joined = [cat(list(row), dim) for row, dim in zip(rows, ends, strict=True)]
        return tree.rebuilt(results[0], iter(joined))

    return mapped


def _first(x: Any, dim: Any) -> Tensor:
    """The samples of an argument along dim 0."""
    if not isinstance(dim, int):
        raise ValueError(f"vmap: in_dims has {dim!r}; it takes ints and None")
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap: in_dims is {dim} for a {type(x).__name__}; only tensors have samples; use None"
        )
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(f"vmap: in_dims is {dim} for a tensor of shape {tuple(x.shape)}")
    return movedim(x, dim, 0) if dim % x.ndim else x


def _size(samples: list[Tensor]) -> int:
    sizes = {x.shape[0] for x in samples}
    if len(sizes) != 1:
        raise ValueError(
            f"vmap: the sizes of the mapped dims are {sorted(sizes)}; they must be equal" if sizes
            else "vmap: no argument has samples; at least one entry of in_dims must be an int"
        )  # fmt: skip
    return sizes.pop()


def _run(
    func: Function, args: Any, kwargs: Any, flat: list[Any], samples: list[Any], size: int,
    out_dims: Any, randomness: str,
) -> Any:  # fmt: skip
    with interpreter_stack.entered(size, randomness) as vmap:
        inputs = [f if s is None else Batched(s, vmap) for f, s in zip(flat, samples, strict=True)]
        out = func(*tree.rebuilt(args, iter(inputs)), **kwargs)
        results = tree.leaves(out)
        for r in results:
            if not isinstance(r, Tensor):
                raise ValueError(f"vmap: the function returned a {type(r).__name__}; it must "
                                 "return tensors, and containers of them")  # fmt: skip
        dims = tree.spread_like("out_dims", out_dims, out)
        spread_out = [spread(r, vmap) for r in results]
    return tree.rebuilt(out, iter(_placed(x, d) for x, d in zip(spread_out, dims, strict=True)))


def _placed(x: Tensor, dim: Any) -> Tensor:
    if not isinstance(dim, int) or not -x.ndim <= dim < x.ndim:
        raise ValueError(f"vmap: out_dims has {dim!r} for a result with {x.ndim} dims")
    return movedim(x, 0, dim) if dim % x.ndim else x

"""autograd.grad: gradients of outputs, for one vector or for a batch of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.core.func.vmapping import vmap
from rushlight.core.tensor import sweep
from rushlight.core.tensor.tensor import Tensor


def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Tensor | Iterable[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of the sum of `outputs` with respect to `inputs`, without touching `.grad`.

    One per input, of its shape; None where an input was not used and `allow_unused` is true,
    else RuntimeError. materialize_grads gives zeros instead of None. `only_inputs` changes
    nothing. is_grads_batched: grad_outputs have a new dim 0, and so have the results: one row for
    each of theirs, computed together by `vmap`.

    `grad_outputs` are the weights of the outputs, ones unless set. `retain_graph` keeps what
    backward needs, by default where `create_graph` lets the results be differentiated again.
    """
    options: dict[str, Any] = {
        "create_graph": create_graph,
        "allow_unused": allow_unused,
        "materialize_grads": materialize_grads,
    }
    if not is_grads_batched:
        return sweep.grad(outputs, inputs, grad_outputs, retain_graph, **options)
    if grad_outputs is None:
        raise RuntimeError("grad: is_grads_batched needs grad_outputs")
    seeds_or_none = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    used: list[bool] = []

    def row(*seeds: Any) -> list[Tensor]:
        remaining = iter(seeds)
        each = [None if g is None else next(remaining) for g in seeds_or_none]
        grads = sweep.grad(outputs, inputs, each, retain_graph, **options)
        used[:] = [g is not None for g in grads]
        return [g for g in grads if g is not None]

    rows = iter(vmap(row)(*(g for g in seeds_or_none if g is not None)))
    return tuple(next(rows) if there else None for there in used)

"""Backward: one pass over the graph, newest node first."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.tensor import hooks, saving
from rushlight.core.tensor.autograd import Node, edge_of, freed
from rushlight.core.tensor.grad_mode import GradMode, is_grad_enabled, without_autocast

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


class _Running(threading.local):
    """partial: the running pass is for some tensors only."""

    partial = False

    @contextmanager
    def going(self, partial: bool) -> Iterator[None]:
        before, self.partial = self.partial, partial
        try:
            yield
        finally:
            self.partial = before


_running = _Running()


def is_partial() -> bool:
    """Whether this thread's pass does not reach every leaf."""
    return _running.partial


class _Sweep:
    """One backward pass: gradients by node, newest node first."""

    def __init__(self, wanted: Sequence[Tensor] | None) -> None:
        self.grads: dict[int, Tensor] = {}
        self.heap: list[tuple[int, Node]] = []
        self.wanted = None if wanted is None else {id(edge_of(t)) for t in wanted}
        self.found: dict[int, Tensor] = {}
        self.hooked: dict[int, list[Any]] = {}  # leaf, its gradient so far, edges not yet seen
        self.useful: dict[int, bool] = {}

    def send(self, edge: Node | Tensor | None, grad: Tensor | None) -> None:
        """Add `grad` to the sum at `edge`."""
        if edge is None:
            return
        key = id(edge)
        if key in self.hooked:
            self._to_hooked(key, grad)
            return
        if grad is None:
            return
        if isinstance(edge, Node):
            if key in self.grads:
                self.grads[key] = self.grads[key] + grad
            else:
                self.grads[key] = grad
                heapq.heappush(self.heap, (-edge.order, edge))
        elif self.wanted is None:
            accumulate(edge, grad)
        elif key in self.wanted:
            self.found[key] = _sum(self.found[key], grad) if key in self.found else grad

    def count(self, roots: Iterable[Node | Tensor | None]) -> None:
        """Find the leaves with hooks, which run when the gradients of all their uses are there."""
        stack, seen = list(roots), set()
        while stack:
            edge = stack.pop()
            if isinstance(edge, Node):
                if id(edge) not in seen:
                    seen.add(id(edge))
                    stack.extend(edge.edges)
            elif edge is not None and getattr(edge, "hooks", None) is not None:
                self.hooked.setdefault(id(edge), [edge, None, 0])[2] += 1

    def _to_hooked(self, key: int, grad: Tensor | None) -> None:
        entry = self.hooked[key]
        leaf, have, left = entry
        have = grad if have is None else have if grad is None else _sum(have, grad)
        entry[1:] = have, left - 1
        if left > 1 or have is None:
            return
        del self.hooked[key]
        if self.wanted is None:
            accumulate(leaf, leaf.hooks.changed(have))
        elif key in self.wanted:
            self.found[key] = leaf.hooks.changed(have)

    def leads_somewhere(self, root: Node | Tensor | None) -> bool:
        """Whether `root` reaches a wanted edge (always true if all leaves are wanted)."""
        if root is None:
            return False
        if self.wanted is None:
            return True
        stack = [root]
        while stack:
            edge = stack[-1]
            key = id(edge)
            if key in self.useful:
                stack.pop()
            elif key in self.wanted or not isinstance(edge, Node):
                self.useful[key] = key in self.wanted
            else:
                # A node without edges is the end of a freed graph; `run` raises there.
                todo = [e for e in edge.edges if e is not None and id(e) not in self.useful]
                if todo:
                    stack.extend(todo)
                else:
                    useful = [self.useful[id(e)] for e in edge.edges if e is not None]
                    self.useful[key] = any(useful) or not edge.edges
        return self.useful[id(root)]

    def run(self, keep: bool) -> None:
        """Go through the graph; `keep` leaves the saved values for another pass."""
        while self.heap:
            node = heapq.heappop(self.heap)[1]
            grad = self.grads.pop(id(node))
            if node.hooks is not None:
                grad = node.hooks.changed(grad)
                for tensor in node.hooks.retained:
                    accumulate(tensor, grad)
            if self.wanted is not None and id(node) in self.wanted:
                self.found[id(node)] = grad
            if not node.edges:
                raise freed(node.context.attrs["freed"])
            needs = tuple(self.leads_somewhere(e) for e in node.edges)
            if any(needs):
                self._step(node, grad, needs)
            if not keep:
                node.saved, node.versions = None, {}
        for key, entry in list(self.hooked.items()):  # some of their uses got no gradient
            entry[2] = 1
            self._to_hooked(key, None)

    def _step(self, node: Node, grad: Tensor, needs: tuple[bool, ...]) -> None:
        """Send the gradients of a node's inputs to its edges."""
        try:
            parts = node.op.gradients(node, grad, needs)
        except Exception as error:
            if trace := getattr(node, "trace", ""):
                error.add_note(f"{node.op.name} was recorded here:\n{trace}")
            raise
        if saving.is_anomaly_check_nan_enabled():
            _check_nan(node, parts)
        for edge, gradient, meta in zip(node.edges, parts, node.context.inputs, strict=True):
            if gradient is not None and meta is not None and gradient.shape != meta.shape:
                raise RuntimeError(
                    f"{node.op.name}: its gradient rule gave shape {gradient.shape} for an "
                    f"input of shape {meta.shape}; this is an error in the rule"
                )
            self.send(edge, gradient)


def _check_loss(root: Node | Tensor | None) -> None:
    """RuntimeError for a result that is NaN, with the first op that gave one."""
    if not getattr(root, "nan", False):
        return
    seen: dict[int, Node] = {}
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if getattr(node, "nan", False) and id(node) not in seen:
            seen[id(node)] = node
            stack.extend(node.edges)
    first = min(seen.values(), key=lambda node: node.order)
    raise RuntimeError(
        f"backward: the loss is nan; {first.op.name} gave the first nan, and was "
        f"recorded here:\n{getattr(first, 'trace', '')}"
    )


def _check_nan(node: Node, parts: Sequence[Any]) -> None:
    for i, gradient in enumerate(parts):
        if hasattr(gradient, "isnan") and bool(gradient.isnan().any()):
            raise RuntimeError(
                f"{node.op.name}: its gradient rule gave nan for input {i}; it was recorded here:"
                f"\n{getattr(node, 'trace', '')}"
            )


def accumulate(leaf: Tensor, grad: Tensor) -> None:
    """Add to `.grad`; then run the leaf's hooks for that."""
    _add(leaf, grad)
    hooks = getattr(leaf, "hooks", None)
    if hooks is not None and leaf.node is None:
        for hook in list(hooks.after.values()):
            hook(leaf)


def _sum(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two gradients, of which one may be row-sparse."""
    return b + a if b.is_sparse and not a.is_sparse else a + b


def _add(leaf: Tensor, grad: Tensor) -> None:
    if leaf.grad is None:
        # A copy, since the same gradient may belong to another leaf or be a view of one.
        leaf.grad = grad.clone() if is_grad_enabled() else grad.detach().clone()
    elif is_grad_enabled() or grad.is_sparse or leaf.grad.is_sparse:
        leaf.grad = _sum(leaf.grad, grad)
    else:
        leaf.grad.add_(grad)


def _seed(tensor: Tensor, grad: Tensor | None) -> Tensor:
    if not tensor.requires_grad:
        raise RuntimeError(
            "backward: the tensor does not require grad, so nothing was recorded; set "
            "requires_grad=True on a leaf, and compute outside no_grad"
        )
    if grad is None:
        if tensor.numel() != 1:
            raise RuntimeError(
                f"backward: shape {tensor.shape} is not a scalar; pass a gradient of that shape"
            )
        return tensor.detach().ones_like()
    if grad.shape != tensor.shape:
        raise ShapeError(f"backward: gradient is {grad.shape}, the tensor is {tensor.shape}")
    return grad.to(tensor.dtype)


def backward(
    tensors: Tensor | Iterable[Tensor],
    grad_tensors: Tensor | Iterable[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    inputs: Tensor | Iterable[Tensor] | None = None,
) -> None:
    """Add to `.grad` of every leaf that `tensors` were computed from, or only of `inputs`.

    grad_tensors: one gradient per tensor, of its shape; None for a scalar means one. create_graph
    records the pass itself, for second derivatives; retain_graph (default: create_graph) keeps the
    saved values. Raises RuntimeError where a saved value was modified in place or freed.
    """
    outs = _listed(tensors)
    grads = None if grad_tensors is None else _listed(grad_tensors)
    if inputs is None:
        _sweep(outs, grads, None, retain_graph, create_graph)
        return
    wanted = _needing("backward", inputs)
    if not wanted:
        raise RuntimeError("backward: inputs is empty; leave it out to reach every leaf")
    gradients = _sweep(outs, grads, wanted, retain_graph, create_graph)
    with GradMode(create_graph):
        for t in wanted:
            gradient = gradients.get(id(edge_of(t)))
            if gradient is not None:
                accumulate(t, gradient)


def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Tensor | Iterable[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """`autograd.grad` (core/autograd/rows.py) of one vector.

    `outputs`, `inputs`, `grad_outputs`, `retain_graph`, `create_graph`, `allow_unused`,
    `materialize_grads` and what it raises are as there.
    """
    outs: list[Tensor] = _listed(outputs)
    wanted = _needing("grad", inputs)
    seeds = None if grad_outputs is None else _listed(grad_outputs)
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True is not compatible with allow_unused=False")
    gradients = _sweep(outs, seeds, wanted, retain_graph, create_graph)
    result = [gradients.get(id(edge_of(t))) for t in wanted]
    if materialize_grads:
        return tuple(
            t.detach().zeros_like() if g is None else g for t, g in zip(wanted, result, strict=True)
        )
    if not allow_unused and any(g is None for g in result):
        i = next(i for i, g in enumerate(result) if g is None)
        raise RuntimeError(
            f"grad: input {i} of shape {wanted[i].shape} was not used by the outputs; pass "
            "allow_unused=True to get None for it"
        )
    return tuple(result)


def _listed(value: Any) -> list[Any]:
    return [value] if value is None or hasattr(value, "storage") else list(value)


def _needing(name: str, inputs: Any) -> list[Tensor]:
    """The inputs, one or several; RuntimeError for one that needs no gradient."""
    wanted: list[Tensor] = _listed(inputs)
    for i, t in enumerate(wanted):
        if not t.requires_grad:
            raise RuntimeError(f"{name}: input {i} of shape {t.shape} does not require grad")
    return wanted


def _sweep(
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor | None] | None,
    wanted: Sequence[Tensor] | None,
    retain_graph: bool | None,
    create_graph: bool,
) -> dict[int, Tensor]:
    seeds = [None] * len(tensors) if grads is None else list(grads)
    sweep = _Sweep(wanted)
    if len(seeds) != len(tensors):
        raise RuntimeError(f"backward: {len(seeds)} gradients for {len(tensors)} tensors")
    with GradMode(create_graph), without_autocast(), _running.going(wanted is not None):
        seed_tensors = [_seed(t, seed) for t, seed in zip(tensors, seeds, strict=True)]
        if saving.is_anomaly_check_nan_enabled():
            for tensor in tensors:
                _check_loss(edge_of(tensor))
        if hooks.leaves:
            sweep.count(map(edge_of, tensors))
        for tensor, seed in zip(tensors, seed_tensors, strict=True):
            sweep.send(edge_of(tensor), seed)
        sweep.run(create_graph if retain_graph is None else retain_graph)
    return sweep.found

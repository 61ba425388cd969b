"""Reverse-mode differentiation: the graph of nodes, grad mode, and backward.

A tensor that an op made from inputs needing a gradient holds a Node. The Node holds edges to the
nodes (or leaves) of those inputs, and the values that its gradient rules need with their versions.
Rules are written in ops, so a gradient can be differentiated again.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rushlight.core.basis.errors import ShapeError
from rushlight.core.jit import capture

if TYPE_CHECKING:
    from rushlight.core.tensor.op import Context, Op
    from rushlight.core.tensor.storage import Storage
    from rushlight.core.tensor.tensor import Tensor


F = TypeVar("F", bound=Callable[..., Any])


class _Mode(threading.local):
    enabled = True


_mode = _Mode()
_order = itertools.count()


def is_grad_enabled() -> bool:
    """Whether ops of this thread are recorded for backward."""
    return _mode.enabled


def needs_gradient(*tensors: Tensor | None) -> bool:
    """Whether a function of these is recorded for backward."""
    return is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def set_grad_enabled(mode: bool) -> GradMode:
    """Switch recording on or off for this thread; as a context manager, until its end."""
    if capture.active and mode != _mode.enabled:
        capture.grad_mode_switched(mode)
    before, _mode.enabled = _mode.enabled, mode
    return GradMode(mode, before)


class GradMode(ContextDecorator):
    """Context manager and decorator that switches recording for this thread."""

    def __init__(self, enabled: bool, before: bool | None = None) -> None:
        self.enabled = enabled
        self._switched = before  # the mode before this object switched it, if it did
        self._before: list[bool] = []

    def __enter__(self) -> None:
        if capture.active and self.enabled != _mode.enabled:
            capture.grad_mode_switched(self.enabled)
        self._before.append(_mode.enabled if self._switched is None else self._switched)
        self._switched = None
        _mode.enabled = self.enabled

    def __exit__(self, *error: object) -> None:
        _mode.enabled = self._before.pop()

    def _recreate_cm(self) -> GradMode:
        # Each call of a decorated function gets its own: calls may be on several threads.
        return GradMode(self.enabled)


@overload
def no_grad(function: None = None) -> GradMode: ...
@overload
def no_grad(function: F) -> F: ...
def no_grad(function: Any = None) -> Any:
    """Context manager and decorator: nothing inside is recorded for backward (this thread).

    The decorator may stand without parentheses.
    """
    return GradMode(False) if function is None else GradMode(False)(function)


@overload
def enable_grad(function: None = None) -> GradMode: ...
@overload
def enable_grad(function: F) -> F: ...
def enable_grad(function: Any = None) -> Any:
    """Context manager and decorator: record inside, also within `no_grad` (this thread)."""
    return GradMode(True) if function is None else GradMode(True)(function)


@overload
def inference_mode(mode: bool = True) -> GradMode: ...
@overload
def inference_mode(mode: F) -> F: ...
def inference_mode(mode: Any = True) -> Any:
    """`no_grad` under the name for inference; inference_mode(False) records."""
    return GradMode(not mode) if isinstance(mode, bool) else GradMode(False)(mode)


class _Dying(threading.local):
    """Objects held by nodes that this thread is freeing."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.busy = False


_dying = _Dying()


class Node:
    """One recorded op: edges for the gradients of its inputs, and the values its rules need."""

    __slots__ = ("context", "edges", "op", "order", "retained", "saved", "versions", "__weakref__")

    def __init__(
        self,
        op: Op,
        context: Context,
        edges: list[Node | Tensor | None],
        saved: dict[int | str, Tensor],
    ) -> None:
        self.op = op
        self.context = context
        self.edges = edges
        self.order = next(_order)
        self.saved: dict[int | str, Tensor] | None = saved
        self.versions = {key: version_of(t) for key, t in saved.items()}
        self.retained: list[Tensor] = []

    def unpack(self, key: int | str) -> Tensor:
        """A saved value; raises if it was freed or written to after it was saved."""
        if self.saved is None:
            raise _freed(self.op.name)
        value = self.saved[key]
        if version_of(value) != self.versions[key]:
            raise RuntimeError(
                f"{self.op.name}: a {value.dtype.name} tensor of shape {value.shape} that its "
                f"gradient needs was modified in place (version {value.storage.version}, saved "
                f"at {self.versions[key][1]}); use the out-of-place op, or clone() before writing"
            )
        return value.rejoin(self) if key == "out" else value

    def __del__(self, dying: _Dying = _dying) -> None:
        # A node holds the nodes before it. Freeing a long chain by recursion would overflow the
        # stack (in the tab at a few thousand nodes), so a loop frees what a node held.
        dying.held.append((self.edges, self.saved, self.retained))
        self.edges, self.saved, self.retained = [], None, []
        if not dying.busy:
            dying.busy = True
            while dying.held:
                dying.held.pop()
            dying.busy = False

    def __repr__(self) -> str:
        return f"<{self.op.name} backward>"


def version_of(tensor: Tensor) -> tuple[Storage, int]:
    """Storage and version of `tensor`; its values are unchanged while both are equal."""
    return tensor.storage, tensor.storage.version


def edge_of(tensor: Tensor | None) -> Node | Tensor | None:
    """The target of the gradient of `tensor`: its node, the tensor if it is a leaf, or None."""
    if tensor is None or not tensor.requires_grad:
        return None
    return tensor.node if tensor.node is not None else tensor


def _freed(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name}: its saved values were freed by an earlier backward; pass retain_graph=True to "
        "that call to go through the graph twice"
    )


def ended(node: Node | None) -> str | None:
    """The op at which a backward through `node` would raise for freed values, or None."""
    seen: dict[int, Node] = {}
    stack: list[Node | Tensor | None] = [node]
    while stack:
        edge = stack.pop()
        if isinstance(edge, Node) and id(edge) not in seen:
            seen[id(edge)] = edge
            stack.extend(edge.edges)
    gone = [n for n in seen.values() if n.saved is None and n.op.uses(n.context.needs)]
    return max(gone, key=lambda n: n.order).op.name if gone else None


def end(like: Node, name: str) -> Node:
    """A node like `like` for a result whose graph was freed: see `ended`."""
    context = replace(like.context, attrs={"freed": name}, inputs=(), needs=())
    return Node(like.op, context, [], {})


class _Sweep:
    """One backward pass: gradients by node, newest node first."""

    def __init__(self, wanted: Sequence[Tensor] | None) -> None:
        self.grads: dict[int, Tensor] = {}
        self.heap: list[tuple[int, Node]] = []
        self.wanted = None if wanted is None else {id(edge_of(t)) for t in wanted}
        self.found: dict[int, Tensor] = {}
        self.useful: dict[int, bool] = {}

    def send(self, edge: Node | Tensor | None, grad: Tensor | None) -> None:
        """Add `grad` to the sum at `edge`."""
        if edge is None or grad is None:
            return
        key = id(edge)
        if isinstance(edge, Node):
            if key in self.grads:
                self.grads[key] = self.grads[key] + grad
            else:
                self.grads[key] = grad
                heapq.heappush(self.heap, (-edge.order, edge))
        elif self.wanted is None:
            _accumulate(edge, grad)
        elif key in self.wanted:
            self.found[key] = self.found[key] + grad if key in self.found else grad

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
                    found = [self.useful[id(e)] for e in edge.edges if e is not None]
                    self.useful[key] = any(found) or not edge.edges
        return self.useful[id(root)]

    def run(self, keep: bool) -> None:
        """Go through the graph; `keep` leaves the saved values for another pass."""
        while self.heap:
            node = heapq.heappop(self.heap)[1]
            grad = self.grads.pop(id(node))
            if self.wanted is not None and id(node) in self.wanted:
                self.found[id(node)] = grad
            for tensor in node.retained:
                _accumulate(tensor, grad)
            if not node.edges:
                raise _freed(node.context.attrs["freed"])
            needs = tuple(self.leads_somewhere(e) for e in node.edges)
            if any(needs):
                parts = node.op.gradients(node, grad, needs)
                for edge, part, meta in zip(node.edges, parts, node.context.inputs, strict=True):
                    if part is not None and meta is not None and part.shape != meta.shape:
                        raise RuntimeError(
                            f"{node.op.name}: its gradient rule gave shape {part.shape} for an "
                            f"input of shape {meta.shape}; this is an error in the rule"
                        )
                    self.send(edge, part)
            if not keep:
                node.saved, node.versions = None, {}


def _accumulate(leaf: Tensor, grad: Tensor) -> None:
    if leaf.grad is None:
        # A copy, since the same gradient may belong to another leaf or be a view of one.
        leaf.grad = grad.clone() if _mode.enabled else grad.detach().clone()
    elif _mode.enabled:
        leaf.grad = leaf.grad + grad
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
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Iterable[Tensor] | None = None,
) -> None:
    """Add to `.grad` of every leaf that `tensors` were computed from, or only of `inputs`.

    grads: one gradient per tensor, of its shape; None for a scalar means one. create_graph records
    the pass itself, for second derivatives; retain_graph (default: create_graph) keeps the saved
    values. Raises RuntimeError where a saved value was modified in place or freed.
    """
    if inputs is None:
        _sweep(tensors, grads, None, retain_graph, create_graph)
        return
    wanted = _needing("backward", inputs)
    if not wanted:
        raise RuntimeError("backward: inputs is empty; leave it out to reach every leaf")
    found = _sweep(tensors, grads, wanted, retain_graph, create_graph)
    with GradMode(create_graph):
        for t in wanted:
            part = found.get(id(edge_of(t)))
            if part is not None:
                _accumulate(t, part)


def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Tensor | Iterable[Tensor | None] | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of the sum of `outputs` with respect to `inputs`, without touching `.grad`.

    One per input, of its shape; None where an input was not used and `allow_unused` is true,
    else RuntimeError. materialize_grads gives zeros instead of None. `only_inputs` changes
    nothing.
    """
    outs: list[Tensor] = _listed(outputs)
    wanted = _needing("grad", inputs)
    seeds = None if grad_outputs is None else _listed(grad_outputs)
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True is not compatible with allow_unused=False")
    found = _sweep(outs, seeds, wanted, retain_graph, create_graph)
    result = [found.get(id(edge_of(t))) for t in wanted]
    if materialize_grads:
        return tuple(t.detach().zeros_like() if g is None else g
                     for t, g in zip(wanted, result, strict=True))  # fmt: skip
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
    with GradMode(create_graph):
        for tensor, seed in zip(tensors, seeds, strict=True):
            sweep.send(edge_of(tensor), _seed(tensor, seed))
        sweep.run(create_graph if retain_graph is None else retain_graph)
    return sweep.found

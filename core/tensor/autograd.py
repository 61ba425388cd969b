"""The graph of reverse-mode differentiation: nodes, their edges and what they save.

A tensor that an op made from inputs needing a gradient holds a Node. The Node holds edges to the
nodes (or leaves) of those inputs, and the values that its gradient rules need with their versions.
Rules are written in ops, so a gradient can be differentiated again. `sweep.py` goes through it.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import saving
from rushlight.core.tensor.grad_mode import (
    GradMode,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    needs_gradient,
    no_grad,
    set_grad_enabled,
)

if TYPE_CHECKING:
    from rushlight.core.tensor.hooks import Hooks
    from rushlight.core.tensor.op import Context, Op
    from rushlight.core.tensor.storage import Storage
    from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "GradMode", "Node", "edge_of", "enable_grad", "end", "ended", "freed", "inference_mode",
    "is_grad_enabled", "is_inference_mode_enabled", "needs_gradient", "no_grad",
    "set_grad_enabled", "version_of",
]  # fmt: skip

_order = itertools.count()


class _Dying(threading.local):
    """Objects held by nodes that this thread is freeing."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.busy = False


_dying = _Dying()


class Node:
    """One recorded op: edges for the gradients of its inputs, and the values its rules need.

    hooks: what backward does with the gradient of the op's result (hooks.py), or None. nan and
    trace are set while anomalies are detected (saving.py).

    `op` made it, with `context`; `edges` lead to the inputs' nodes, `saved` are values by place. It
    raises nothing.
    """

    __slots__ = (
        "context",
        "edges",
        "hooks",
        "nan",
        "op",
        "order",
        "saved",
        "trace",
        "versions",
        "__weakref__",
    )

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
        self.hooks: Hooks | None = None
        self.nan: bool
        self.saved: dict[int | str, Any] | None
        self.versions: dict[int | str, tuple[Storage, int]]
        if saving.active:
            self.trace = saving.where()
            self.saved = None  # a hook may raise
            if saving.packs():
                self.saved = {key: saving.Packed(t) for key, t in saved.items()}
                self.versions = {}
                return
        self.saved = saved
        self.versions = {key: version_of(t) for key, t in saved.items()}

    def save(self, key: int | str, value: Tensor) -> None:
        """Save one more value that a rule needs."""
        assert self.saved is not None
        if saving.active and saving.packs():
            self.saved[key] = saving.Packed(value)
        else:
            self.saved[key], self.versions[key] = value, version_of(value)

    def unpack(self, key: int | str) -> Tensor:
        """A saved value; raises if it was freed or written to after it was saved."""
        if self.saved is None:
            raise freed(self.op.name)
        value: Any = self.saved[key]
        if isinstance(value, saving.Packed):
            value = value.unpack()
        elif version_of(value) != self.versions[key]:
            raise RuntimeError(
                f"{self.op.name}: a {value.dtype.name} tensor of shape {value.shape} that its "
                f"gradient needs was modified in place (version {value.storage.version}, saved "
                f"at {self.versions[key][1]}); use the out-of-place op, or clone() before writing"
            )
        tensor: Tensor = value.rejoin(self) if key == "out" else value
        return tensor

    def name(self) -> str:
        """The op's name, spelled as torch spells it: "MaskedFillBackward0"."""
        if self.op.name == "output" and isinstance(self.edges[0], Node):  # of a Function
            return self.edges[0].op.name
        return "".join(word.capitalize() for word in self.op.name.split("_")) + "Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Node | AccumulateGrad | None, int], ...]:
        """What the gradients of the inputs go to, each with the number of its result, which is 0.

        A node, `AccumulateGrad` of a leaf, or None for an input that needs no gradient.
        """
        return tuple(
            (edge if edge is None or isinstance(edge, Node) else AccumulateGrad(edge), 0)
            for edge in self.edges
        )

    def __del__(self, dying: _Dying = _dying) -> None:
        # A node holds the nodes before it. Freeing a long chain by recursion would overflow the
        # stack (in the tab at a few thousand nodes), so a loop frees what a node held.
        dying.held.append((self.edges, self.saved, self.hooks))
        self.edges, self.saved, self.hooks = [], None, None
        if not dying.busy:
            dying.busy = True
            while dying.held:
                dying.held.pop()
            dying.busy = False

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class AccumulateGrad:
    """Where a gradient arrives: `variable`, whose `.grad` it is added to."""

    next_functions: tuple[()] = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        """torch's name of it."""
        return "AccumulateGrad"


def version_of(tensor: Tensor) -> tuple[Storage, int]:
    """Storage and version of `tensor`; its values are unchanged while both are equal."""
    try:
        storage = tensor.storage
    except TypeError:  # a sparse tensor has no memory but that of its values
        storage = tensor._values().storage  # type: ignore[attr-defined]
    if storage.inference:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward; clone() a tensor of inference_mode "
            "outside of it to use it where grads are recorded"
        )
    return storage, storage.version


def edge_of(tensor: Tensor | None) -> Node | Tensor | None:
    """The target of the gradient of `tensor`: its node, the tensor if it is a leaf, or None."""
    if tensor is None or not tensor.needs_grad:
        return None
    return tensor.node if tensor.node is not None else tensor


def freed(name: str) -> RuntimeError:
    """The error of a backward through an op whose saved values are gone."""
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

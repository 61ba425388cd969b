"""What a tensor knows of the graph: its node, its gradient, and where it comes from as a view.

A view knows its root (the tensor that owns the memory's history) and the ops that lead from there
to it. A recorded write through a view becomes a node of the root; other views of the root take
their history from it again when they are next used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rushlight.core import ops
from rushlight.core.basis.layout import Layout
from rushlight.core.jit import capture
from rushlight.core.ops.strided import AS_STRIDED, as_strided
from rushlight.core.tensor import autograd
from rushlight.core.tensor import hooks as _hooks
from rushlight.core.tensor.exchange.arrays import Exchange
from rushlight.core.tensor.op import Context, Meta, Op, rule
from rushlight.core.tensor.storage import Storage

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Steps = tuple[tuple[Op, Mapping[str, Any]], ...]
_STEPS = 16  # the most that a chain keeps, so that a view of a view of a view costs as much
Chain = tuple["Tensor", Steps, Layout]  # the root, the ops from it, the root's layout at that time


def _same(x: Meta, **_: Any) -> Meta:
    return Meta(x.dtype, x.layout)


# No backend runs these ops; they are recorded by hand. ALIAS: its output is its input. WRITTEN:
# the root of a view after a write through the view, of the root before and of the view after.
ALIAS = Op("alias", infer=_same, grads=(rule(lambda c, g: g),), register=False)


def _replayed(x: Tensor, steps: Steps) -> Tensor:
    for op, attrs in steps:
        x = op(x, **attrs)
    return x


def _like_root(c: Context, g: Tensor) -> Tensor:
    """A copy of `g` that lies in memory as the root does, so that views of the root fit it."""
    root = c.inputs[0]
    assert root is not None
    layout = root.layout
    if layout.is_contiguous and not layout.offset:
        return g.clone()
    memory = ops.zeros(max(layout.extent[1], 1), dtype=g.dtype, device=g.device)
    return as_strided(memory, layout.shape, layout.strides, layout.offset).copy_(g)


def _rest_grad(c: Context, g: Tensor) -> Tensor:
    rest = _like_root(c, g)
    _replayed(rest, c.attrs["steps"]).zero_()
    return rest


def _part_grad(c: Context, g: Tensor) -> Tensor:
    return _replayed(_like_root(c, g), c.attrs["steps"])


WRITTEN = Op(
    "written",
    infer=lambda x, part, **_: _same(x),
    grads=(rule(_rest_grad), rule(_part_grad)),
    register=False,
)


def _chain_of(x: History) -> Chain | None:
    """Where a view comes from; None for what is no view, or one that cannot be followed."""
    chain: Chain | None = getattr(x, "chain", None) if x.is_view else None
    if chain is None or chain[0].storage is not x.storage:
        return None
    # One step stands for many, and for those of a root that changed its shape in place.
    many = len(chain[1]) >= _STEPS and x.dtype is chain[0].dtype
    if many or chain[0].layout != chain[2]:
        here = x.layout
        attrs = {"shape": here.shape, "strides": here.strides, "offset": here.offset}
        chain = x.chain = chain[0], ((AS_STRIDED, attrs),), chain[0].layout
    return chain


def _follow(view: History, base: Tensor, op: Op, attrs: Mapping[str, Any]) -> None:
    """Note that `view`, which is new, is what the view op makes of `base`."""
    if not base.is_view or (base.needs_grad and base.node is None):
        view.chain = base, ((op, attrs),), base.layout
    elif (chain := _chain_of(base)) is not None:
        view.chain = chain[0], (*chain[1], (op, attrs)), chain[2]


def _refresh(view: History) -> bool:
    """Take the history of the root again, after a recorded write; False where that is not known."""
    chain = _chain_of(view)
    if chain is None:
        return False
    x, steps, _ = chain
    for op, attrs in steps[:-1]:
        new = view.alias(op.infer(x, **attrs).layout)
        op.record(new, (x,), attrs)
        x = new
    if x.needs_grad:
        refreshed = view.alias(view.layout)
        steps[-1][0].record(refreshed, (x,), steps[-1][1])
        assert refreshed.node is not None
        view.attach(refreshed.node)
    return True


def _write(view: History, node: autograd.Node) -> None:
    """Record a write through `view`: `node` is the history of its new elements."""
    chain = _chain_of(view)
    assert chain is not None
    root, steps, _ = chain
    metas = Meta(root.dtype, root.layout), Meta(view.dtype, view.layout)
    context = Context({"steps": steps}, metas, metas[0], (root.needs_grad, True))
    root.attach(autograd.Node(WRITTEN, context, [autograd.edge_of(root), node], {}))


class History(Exchange):
    """The part of Tensor that autograd uses."""

    __slots__ = (
        "_grad",
        "_stamp",
        "chain",
        "frozen_view",
        "hooks",
        "is_view",
        "needs_grad",
        "node",
    )
    storage: Storage
    needs_grad: bool
    is_view: bool
    frozen_view: bool
    _stamp: int | None
    node: autograd.Node | None
    chain: Chain | None  # set on views
    hooks: _hooks.Hooks | None  # set on leaves that have some
    if TYPE_CHECKING:

        def alias(self, layout: Layout) -> Tensor: ...
        def requires_grad_(self, requires_grad: bool = True) -> Tensor: ...

    @property
    def root(self) -> History | None:
        """The tensor that owns the history of this memory; None for a view taken under no_grad."""
        chain = _chain_of(self)
        return self if not self.is_view else chain[0] if chain else None

    @property
    def is_current(self) -> bool:
        """False if a recorded in-place write made this view's history out of date."""
        return self._stamp is None or self._stamp == self.storage.history

    def refresh(self) -> bool:
        """Take a history that is out of date again; False where it is not known how."""
        if self.is_view and not _refresh(self):
            return False
        self._stamp = self.storage.history
        return True

    def follow(self, base: Tensor, op: Op, attrs: Mapping[str, Any]) -> None:
        """Mark this new tensor as the view of `base` that a view op makes.

        `op` made it with `attrs`. It raises nothing.
        """
        self.is_view = True
        if autograd.is_grad_enabled() and not base.is_current:
            base.refresh()
        self._stamp = base._stamp
        if autograd.is_grad_enabled():
            _follow(self, base, op, attrs)
        else:
            self.frozen_view = base.needs_grad or base.frozen_view

    def attach(self, node: autograd.Node) -> None:
        """Make `node` the history; `retain_grad` applies to the new value."""
        old = None if self.node is None else self.node.hooks
        capture.gradient_generation += 1
        self.node, self.needs_grad, self._stamp = node, True, self.storage.history
        if old is not None and any(t is self for t in old.retained):
            old.retained = [t for t in old.retained if t is not self]
            _hooks.of(self).retained.append(self)

    def rebase(self, node: autograd.Node) -> None:
        """Make `node` the history of these elements, after a recorded in-place write."""
        if not self.is_view:
            self.attach(node)
            return
        _write(self, node)
        self.refresh()

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is computed for this tensor; setting is `requires_grad_`."""
        if self.is_view and not self.is_current:
            self.refresh()
        return self.needs_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables; use "
                "detach() for a result that needs no gradient"
            )
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor."""
        return self.grad_fn is None

    @property
    def grad_fn(self) -> autograd.Node | None:
        """The recorded op that made this tensor."""
        if self.is_view and not self.is_current:
            self.refresh()
        return self.node

    def retain_grad(self) -> None:
        """Make `backward` fill in `.grad` although this is not a leaf."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.node is not None and not self.retains_grad:
            _hooks.of(self).retained.append(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called for this result."""
        node = self.grad_fn
        return bool(node and node.hooks and any(t is self for t in node.hooks.retained))

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> _hooks.RemovableHandle:
        """Call hook(grad) when backward has this tensor's gradient; it may return another one.

        Hooks run in the order of registration. An in-place write later does not move them.
        """
        return _hooks.add(self, "grad", hook)

    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Tensor], None]
    ) -> _hooks.RemovableHandle:
        """Call hook(tensor) when backward has added to `.grad` of this leaf."""
        if self.node is not None:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        return _hooks.add(self, "after", hook)

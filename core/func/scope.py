"""Scope: what one differentiating transform differentiates by, and where its graph ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core.func import tree
from rushlight.core.func.batched import Batched, lifted
from rushlight.core.jit import capture
from rushlight.core.tensor import sweep
from rushlight.core.tensor.autograd import Node
from rushlight.core.tensor.grad_mode import enable_grad, is_grad_enabled
from rushlight.core.tensor.tensor import Tensor


def bare(x: Tensor) -> Tensor:
    """`x` without its history here; that around a vmap stays."""
    return x.alias(x.layout) if isinstance(x, Batched) else x.detach()


def _leaf(name: str, x: Tensor) -> Tensor:
    """A tensor to differentiate by, with the values of `x` and its history."""
    if x.dtype.kind not in "fc":
        raise RuntimeError(f"{name}: a {x.dtype.name} tensor of shape {tuple(x.shape)} has no "
                           "gradient; arguments to differentiate by must be floating")  # fmt: skip
    new = lifted(x)
    if capture.active and not isinstance(new, Batched):
        capture.view_taken(x, new)
    if x.needs_grad and is_grad_enabled():
        return new.alias_of(x)
    new.needs_grad = True
    return new


class Scope:
    """One transform's tensors to differentiate by, and whether a transform around it goes on."""

    def __init__(self, name: str) -> None:
        self.name, self.outer = name, is_grad_enabled()
        self.leaves: list[Tensor] = []
        self._own: set[int] = set()

    def enter(self, value: Any) -> Any:
        """The value with tensors to differentiate by in place of its own."""
        flat = tree.leaves(value)
        if not flat or not all(isinstance(x, Tensor) for x in flat):
            kinds = sorted({type(x).__name__ for x in flat if not isinstance(x, Tensor)})
            raise ValueError(f"{self.name}: differentiates by tensors, not by {', '.join(kinds)}")
        new = [_leaf(self.name, x) for x in flat]
        self.leaves += new
        self._own |= {id(x if x.node is None else x.node) for x in new}
        return tree.rebuilt(value, iter(new))

    def dummy(self, like: Tensor) -> Tensor:
        """Zeros to differentiate by."""
        zero = lifted(like.detach().zeros_like())
        zero.needs_grad = True
        self._own.add(id(zero))
        return zero

    def goes_on(self, *tensors: Tensor) -> bool:
        """Whether gradients around this transform flow through these tensors."""
        return self.outer and any(
            (isinstance(t, Batched) and t.value.requires_grad) or (t.needs_grad and self._past(t))
            for t in tensors
        )

    def _past(self, x: Tensor) -> bool:
        """Whether the history of x leads to other leaves than the transform's own."""
        stack: list[Any] = [x if x.node is None else x.node]
        met = set()
        while stack:
            edge = stack.pop()
            if edge is None or id(edge) in met:
                continue
            met.add(id(edge))
            if isinstance(edge, Node):
                stack.extend(edge.edges)
            elif id(edge) not in self._own:
                return True
        return False

    def settled(self, value: Any, here: bool = True) -> Any:
        """Results without the history that ends here; without any if not `here`."""

        def one(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.needs_grad:
                return x
            return x if here and self.outer and self._past(x) else bare(x)

        return tree.mapped(one, value)

    def pulled(
        self, outs: Sequence[Tensor], seeds: Sequence[Any], more: bool, keep: bool = True
    ) -> list[Any]:
        """Gradients by the leaves, None for one that is not used; more: they have gradients too."""
        pairs = [(o, s) for o, s in zip(outs, seeds, strict=True) if o.needs_grad]
        if not pairs:
            return [None] * len(self.leaves)
        out, seed = zip(*pairs, strict=True)
        return list(sweep.grad(out, self.leaves, seed, keep, more, allow_unused=True))


def filled(grads: Sequence[Any], like: Sequence[Tensor]) -> list[Tensor]:
    """Gradients, with zeros for those that are None."""
    return [x.detach().zeros_like() if g is None else g for g, x in zip(grads, like, strict=True)]


class Tangents:
    """Products of a Jacobian with tangents of a scope's leaves: None for an output without one.

    The product of a vector u with the Jacobian is linear in u; its gradient by u is the product
    with a tangent.
    """

    def __init__(self, scope: Scope, outs: Sequence[Tensor]) -> None:
        self.scope, self.outs = scope, list(outs)
        self.live = [o for o in outs if o.needs_grad]
        self.more = scope.goes_on(*self.live)
        self.dummies = [scope.dummy(o) for o in self.live]
        self.slopes: Sequence[Any] = [None] * len(scope.leaves)
        if self.live:
            self.slopes = sweep.grad(
                self.live, scope.leaves, self.dummies, True, True, allow_unused=True
            )

    def __call__(self, tangents: Sequence[Tensor]) -> list[Any]:
        """The products, one for each output."""
        here = is_grad_enabled()
        pairs = [
            (g, t) for g, t in zip(self.slopes, tangents, strict=True)
            if g is not None and g.needs_grad
        ]  # fmt: skip
        if not pairs:
            return [None] * len(self.outs)
        slopes, ts = zip(*pairs, strict=True)
        with enable_grad():
            more = here and (self.more or any(t.requires_grad for t in tangents))
            derivatives = sweep.grad(slopes, self.dummies, ts, True, more, allow_unused=True)
            derivatives = (
                self.scope.settled(derivatives)
                if here
                else tuple(None if x is None else bare(x) for x in derivatives)
            )
        by = dict(zip(map(id, self.live), derivatives, strict=True))
        return [by.get(id(o)) for o in self.outs]

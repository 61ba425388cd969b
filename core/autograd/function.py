"""Function: an operation with a gradient of its own, written in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from rushlight.core.functional.shape import sum_to_size
from rushlight.core.ops import zeros
from rushlight.core.tensor.autograd import Node, edge_of
from rushlight.core.tensor.grad_mode import is_grad_enabled, no_grad
from rushlight.core.tensor.op import Context, Meta, Op, Uses, rule
from rushlight.core.tensor.tensor import Tensor

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class _Parts:
    """The gradients of several outputs that have come so far, by the output's number."""

    def __init__(self, of: Mapping[int, Tensor]) -> None:
        self.of = of

    def __add__(self, other: _Parts) -> _Parts:
        both = dict(self.of)
        for i, grad in other.of.items():
            both[i] = both[i] + grad if i in both else grad
        return _Parts(both)


def _same(x: Meta, **_: Any) -> Meta:
    return x


def _twice(c: Context, g: Tensor) -> Tensor:
    raise RuntimeError(
        "trying to differentiate twice a function that was marked with @once_differentiable"
    )


# No backend runs these ops. OUTPUT: one of the results of a Function. ONCE: a gradient that has
# no gradient.
OUTPUT = Op(
    "output", infer=_same, register=False, grads=(rule(lambda c, g: _Parts({c.attrs["index"]: g})),)
)
ONCE = Op("once_differentiable", infer=_same, grads=(rule(_twice),), register=False)


class FunctionCtx:
    """What forward tells backward: the first argument of both. It takes any attribute.

    needs_input_grad: for each argument of forward whether its gradient is needed.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._save: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True
        self._node: Node | None = None
        self._places: dict[int, int] = {}  # of saved outputs: place in _save -> output

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save arguments or results for backward, which finds them in `saved_tensors`."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is "
                    f"of type {type(t).__name__}; set it as ctx.NAME"
                )
        self._save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Without effect: there is no forward mode."""

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What was saved. RuntimeError for a tensor written to since, and after it was freed."""
        node = self._node
        if node is None:
            return self._save
        saved: list[Tensor | None] = []
        for i, t in enumerate(self._save):
            value = None if t is None else node.unpack(i)
            if value is not None and i in self._places and is_grad_enabled():
                value = value.rejoin(_output(node, self._places[i], value))
            saved.append(value)
        return tuple(saved)

    def mark_dirty(self, *args: Tensor) -> None:
        """Say that forward writes to these arguments; it must return them."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say that these results need no gradient."""
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for a result without gradient."""
        self._materialize = value


class _Call(Op):
    """The op of one call of a Function."""

    def __init__(self, function: type[Function], ctx: FunctionCtx, inputs: tuple[Any, ...]) -> None:
        super().__init__(f"{function.__name__}Backward", infer=_same, register=False)
        self.function, self.ctx = function, ctx
        self.inputs = [Meta(a.dtype, a.layout) if isinstance(a, Tensor) else None for a in inputs]
        self.outputs: list[tuple[Any, ...] | None] = []

    def uses(self, needs: tuple[bool, ...]) -> set[Uses]:
        """The values that backward needs."""
        return {i for i, t in enumerate(self.ctx._save) if t is not None}

    def gradients(
        self, node: Node, grad: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        """What the Function's backward gives, checked."""
        ctx, grads = self.ctx, []
        for i, described in enumerate(self.outputs):
            grad_of_output = grad.of.get(i)
            if grad_of_output is None and described is not None and ctx._materialize:
                grad_of_output = zeros(described[0], dtype=described[1], device=described[2])
            grads.append(grad_of_output)
        ctx._node, ctx.needs_input_grad = node, needs
        try:
            returned = self.function.backward(ctx, *grads)
        finally:
            ctx._node = None
        parts = list(returned) if isinstance(returned, tuple | list) else [returned]
        count = len(self.inputs)
        if len(parts) < count or any(p is not None for p in parts[count:]):
            raise RuntimeError(
                f"function {self.name} returned an incorrect number of gradients "
                f"(expected {count}, got {len(parts)})"
            )
        rows = enumerate(zip(parts, self.inputs, needs, strict=False))
        return tuple(self._checked(i, *row) for i, row in rows)

    def _checked(self, i: int, part: Any, meta: Meta | None, needed: bool) -> Tensor | None:
        if part is None:
            return None
        if not isinstance(part, Tensor):
            raise TypeError(
                f"function {self.name}: gradient {i} is a {type(part).__name__}; it "
                "must be a tensor or None"
            )
        if meta is None:
            raise RuntimeError(
                f"function {self.name} returned a gradient different from None at position {i}, "
                "but the corresponding forward input was not a tensor"
            )
        if not needed:
            return None
        if part.shape != meta.shape:
            try:
                part = sum_to_size(part, *meta.shape)
            except ValueError:
                raise RuntimeError(
                    f"function {self.name} returned an invalid gradient at index {i}: got "
                    f"{part.shape}, but expected a shape compatible with {meta.shape}"
                ) from None
        converted: Tensor = part.to(meta.dtype)
        return converted


class Function:
    """Base of operations with a gradient of their own; call them by `apply`.

    A subclass has static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, which returns
    one gradient per argument, None for those that have none. With `setup_context(ctx, inputs,
    output)`, forward takes no ctx. Forward is not recorded; backward is, under create_graph.
    Within `jit` both are captured, as the ops that they run.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The results: a tensor, or a tuple of tensors and other values."""
        raise NotImplementedError("a Function must define the static method forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs, where forward takes no ctx.

        `ctx` keeps it, `inputs` are forward's arguments, `output` its result. The base raises
        NotImplementedError.
        """
        raise NotImplementedError("setup_context is not defined")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments, for those of the results."""
        raise NotImplementedError(
            "a Function must define the static method backward to be differentiated"
        )

    def __init__(self) -> None:
        raise RuntimeError(
            f"{type(self).__name__} has no instances; call {type(self).__name__}.apply(...)"
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward on `args` and record backward, if a tensor among them needs a gradient."""
        ctx = FunctionCtx()
        op = _Call(cls, ctx, args)
        tensors = [a if isinstance(a, Tensor) else None for a in args]
        if is_grad_enabled():
            if _needed_around(tensors):
                raise RuntimeError(
                    f"{cls.__name__}: a Function within vmap has no gradient around it; write it "
                    "in ops, or take the gradient within"
                )
            op.check_current(tensors)
        needs = ctx.needs_input_grad = tuple(t is not None and t.requires_grad for t in tensors)
        edges = [edge_of(t) for t in tensors]
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                out = cls.forward(*args)
                cls.setup_context(ctx, args, out)
            else:
                out = cls.forward(ctx, *args)
        several = isinstance(out, tuple)
        outs = list(out) if several else [out]
        if len(ctx._dirty) > sum(any(d is o for o in outs) for d in ctx._dirty):
            raise RuntimeError(f"{cls.__name__}: what forward marks as dirty must be returned")
        op.outputs = [(o.shape, o.dtype, o.device) if isinstance(o, Tensor) else None for o in outs]
        node = None
        if is_grad_enabled() and any(needs):
            metas: tuple[Meta | None, ...] = (None,) * len(args)
            node = Node(op, Context({}, metas, Meta(*_first(args)), needs), edges, {})
        results = [
            _result(i, o, args, ctx, node) if isinstance(o, Tensor) else o
            for i, o in enumerate(outs)
        ]
        if node is not None:
            _save(ctx, node, outs)
        return tuple(results) if several else results[0]


def _needed_around(tensors: list[Any]) -> bool:
    """Whether a gradient is needed around the innermost vmap among these."""
    number = max((t.level for t in tensors if t is not None), default=0)
    around = [t.value if t.level == number else t for t in tensors if t is not None and number]
    return any(t.requires_grad for t in around)


def _first(args: tuple[Any, ...]) -> tuple[Any, ...]:
    first = next(a for a in args if isinstance(a, Tensor))
    return first.dtype, first.layout


def _among(x: Tensor, tensors: Any) -> bool:
    return any(x is t for t in tensors)


def _output(node: Node, index: int, out: Tensor) -> Node:
    """The history of one result."""
    context = Context({"index": index}, (None,), Meta(out.dtype, out.layout), (True,))
    return Node(OUTPUT, context, [node], {})


def _result(
    i: int, out: Tensor, args: tuple[Any, ...], ctx: FunctionCtx, node: Node | None
) -> Tensor:
    """Result `i` of forward, with its history."""
    if _among(out, ctx._dirty):
        if node is not None:
            node.op.check_recordable(out)
            out.storage.history += 1
            out.rebase(_output(node, i, out))
        return out
    if _among(out, args) or out.node is not None:
        alias = out.alias(out.layout)
        alias.is_view, alias.chain, out = True, None, alias
    if node is not None and out.dtype.kind == "f" and not _among(out, ctx._constant):
        out.attach(_output(node, i, out))
    return out


def _save(ctx: FunctionCtx, node: Node, outs: list[Any]) -> None:
    """Give the node what was saved. A result goes without its history, which holds the node."""
    marks: list[Any] = []
    for i, t in enumerate(ctx._save):
        place = next((j for j, o in enumerate(outs) if o is t and t is not None), None)
        if place is not None:
            ctx._places[i] = place
            t = t.alias(t.layout)  # type: ignore[union-attr]
        if t is not None:
            node.save(i, t)
        marks.append(None if t is None else True)
    ctx._save = tuple(marks)


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a `backward` that cannot be differentiated; doing so raises RuntimeError."""

    @wraps(fn)
    def call(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            grads_in = fn(ctx, *grads)
        first = next((g for g in grads if isinstance(g, Tensor) and g.requires_grad), None)
        if first is None or not is_grad_enabled():
            return grads_in
        several = isinstance(grads_in, tuple)
        parts = [
            p.detach() if isinstance(p, Tensor) else p
            for p in (grads_in if several else [grads_in])
        ]
        for p in parts:
            if isinstance(p, Tensor):
                ONCE.record(p, (first,), {})
        return tuple(parts) if several else parts[0]

    return call

"""Op, the registry of ops, and the one call path: infer, run, record for autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import HOST, Device
from rushlight.core.backends.memo import Memo, keep, recall
from rushlight.core.basis.errors import DeviceMemoryError, ShapeError, SizeError, TypeMismatch
from rushlight.core.jit import capture
from rushlight.core.tensor import autograd, interpreter_stack, saving
from rushlight.core.tensor.meta import Context, Meta, Rule, Uses, rule
from rushlight.core.tensor.storage import Storage, inference

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "REGISTRY",
    "Context",
    "Meta",
    "Op",
    "Rule",
    "Uses",
    "bind_tensor_class",
    "rule",
    "tensor_class",
]

REGISTRY: dict[str, Op] = {}
tensor_class: list[type[Tensor]] = []  # filled by `bind_tensor_class`


def bind_tensor_class(cls: type[Tensor]) -> None:
    """Register Tensor; called once, by the module that defines it."""
    tensor_class[:] = [cls]


def _unrecorded(target: Tensor, others: Sequence[Tensor | None]) -> bool:
    """Whether a write over `target` touches no gradient, no inference tensor and no other input."""
    storage = target.storage
    if storage.inference:
        return False
    if autograd.is_grad_enabled():
        if target.needs_grad or target.frozen_view or target._stamp != storage.history:
            return False
        for x in others:
            if x is not None and (x.needs_grad or x._stamp != x.storage.history):
                return False
    for x in others:
        if x is None:
            continue
        other = x.storage
        if other is storage or (storage.lent and other.lent and storage.may_overlap(other)):
            return False
    return True


class Op:
    """A primitive: a name that backends know, a shape rule and gradient rules.

    infer(*inputs, **attrs) -> Meta: dtype and layout of the result for checked arguments. grads:
    one Rule or None per input; or `joint`: one Rule that returns a tuple of the gradients that
    `context.needs` asks for. view: the result shares the first input's Storage.
    differentiable=False: results never need a gradient (integers, booleans, random draws). blocks:
    the indices of the inputs that may be block-quantized. register=False: not an op of the library.
    varies: attributes differ from call to call, so nothing is kept for equal calls. complex: takes
    complex numbers, which only cpu has; the gradients of other ops are not theirs. batch: what
    `vmap` runs for all samples along a new first dim: the op itself ("same"), with the attribute
    `dim` or `dims` one further ("dim", "dims"), or what core/func/rules.py says ("").
    """

    def __init__(
        self,
        name: str,
        *,
        infer: Callable[..., Meta],
        grads: Sequence[Rule | None] = (),
        joint: Rule | None = None,
        view: bool = False,
        differentiable: bool = True,
        blocks: Sequence[int] = (),
        register: bool = True,
        varies: bool = False,
        complex: bool = False,
        batch: str = "",
    ) -> None:
        if name in REGISTRY:
            raise ValueError(f"op {name!r} already exists")
        self.name = name
        self.infer = infer
        self.grads = tuple(grads)
        self.joint = joint
        self.view = view
        self.differentiable = differentiable
        self.blocks = frozenset(blocks)
        self.complex = complex
        self.batch = batch
        self.memos: dict[Any, Memo] | None = None if view or varies else {}
        self.inplace_memos: dict[Any, Memo] | None = None if view or varies else {}
        self.over_memos: dict[Any, Memo] | None = None if view or varies else {}
        if register:
            REGISTRY[name] = self

    def __call__(
        self, *inputs: Tensor | None, device: Device | None = None, **attrs: Any
    ) -> Tensor:
        """Run on `inputs` (None for an omitted one) and return the result."""
        if interpreter_stack.active and interpreter_stack.any_batched(inputs):
            return interpreter_stack.handlers.run(self, inputs, attrs)
        if self.view:
            first = inputs[0]
            assert first is not None
            self._device(inputs, device)
            meta = self._inferred(inputs, attrs)
            out = tensor_class[0](first.storage, meta.dtype, meta.layout)
            out.follow(first, self, attrs)
            if capture.active:
                capture.view_taken(first, out, self.name, attrs)
        else:
            memo = recall(self.memos, inputs, device, attrs) or self._memo(inputs, device, attrs)
            where = memo.device
            backend = where.backend
            try:
                buffer = backend.allocate(memo.nbytes, memo.dtype)
            except DeviceMemoryError as error:
                raise error.during(self.name) from None
            storage = Storage(where, buffer, memo.nbytes, lent=False)
            out = tensor_class[0](storage, memo.dtype, memo.layout)
            if capture.active:
                capture.op_runs(self.name, inputs, out, attrs)
            backend.run(self.name, inputs, out, attrs, memo)
        if autograd.is_grad_enabled():
            self.record(out, inputs, attrs)
        return out

    def _inferred(self, inputs: Sequence[Tensor | None], attrs: Mapping[str, Any]) -> Meta:
        try:
            return self.infer(*inputs, **attrs)
        except SizeError as error:
            raise error.during(self.name) from None

    def _memo(
        self, inputs: Sequence[Tensor | None], device: Device | None, attrs: Mapping[str, Any]
    ) -> Memo:
        """The checks of a call, and what equal ones share."""
        where = self._device(inputs, device)
        meta = self._inferred(inputs, attrs)
        if meta.dtype.kind == "q" and 0 not in self.blocks:
            raise TypeError(
                f"{self.name}: making {meta.dtype.name} blocks is not supported; "
                "dequantize() a tensor of blocks first"
            )
        memo = Memo(where, meta.dtype, meta.layout)
        keep(self.memos, memo, inputs, attrs)
        return memo

    def inplace(self, target: Tensor, *others: Tensor | None, **attrs: Any) -> Tensor:
        """Write the result over `target`, the first input, and return `target`.

        Raises RuntimeError where the write would make a gradient wrong: on a leaf that needs one,
        or through a view of which it is not known how it was taken; and for a tensor that was made
        in inference_mode, outside of it.
        """
        inputs = (target, *others)
        storage = target.storage
        if not interpreter_stack.active and _unrecorded(target, others):
            memo = recall(self.inplace_memos, inputs, None, attrs)
            if memo is None:
                memo = self._inplace_memo(inputs, attrs)
            if capture.active:
                capture.op_runs(self.name, inputs, target, attrs, True, False)
            memo.device.backend.run(self.name, inputs, target, attrs, memo)
            storage.version += 1
            return target
        where = self._device(inputs, None)
        meta = self.infer(*inputs, **attrs)
        self._check_writable(target, meta)
        if autograd.is_grad_enabled():
            self.check_current(inputs)
        needs = tuple(t is not None and t.needs_grad for t in inputs)
        record = autograd.is_grad_enabled() and target.dtype.kind in "fc" and any(needs)
        if record:
            self.check_recordable(target)
            edges = [autograd.edge_of(t) for t in inputs]
            saved = self._saved(inputs, needs)
            if 0 in saved:  # save the values before the write, with their history
                saved[0] = target.clone()
            before = {key: autograd.version_of(t) for key, t in saved.items()}
        elif autograd.is_grad_enabled() and target.frozen_view:
            raise RuntimeError(
                f"{self.name}_: this view of a tensor that needs a gradient was taken under "
                "no_grad; write to it under no_grad too"
            )
        if interpreter_stack.active and interpreter_stack.any_batched(inputs):
            interpreter_stack.handlers.write(self, inputs, attrs)
        else:
            if capture.active:
                capture.op_runs(self.name, inputs, target, attrs, True, record)
            where.backend.run(self.name, inputs, target, attrs)
            storage.version += 1
        if record:
            storage.history += 1
            node = autograd.Node(self, self._context(target, inputs, attrs, needs), edges, saved)
            node.versions.update(before)
            target.rebase(node)
            if self._uses_out(needs):
                node.save("out", target.alias(target.layout))
        return target

    def over(self, target: Tensor, *inputs: Tensor) -> Tensor | None:
        """Write the result over `target`, one of the inputs at any place, and return it.

        Of elementwise ops. None, and nothing is done, where a gradient, a capture, a vmap, a device
        that keeps what it reads apart or shared memory asks for the result in memory of its own.
        """
        storage = target.storage
        if interpreter_stack.active or capture.active or storage.device is not HOST:
            return None
        if not _unrecorded(target, [x for x in inputs if x is not target]):
            return None
        memo = recall(self.over_memos, inputs, None, {})
        if memo is None:
            self._check_writable(target, self.infer(*inputs))
            memo = Memo(self._device(inputs, None), target.dtype, target.layout)
            keep(self.over_memos, memo, inputs, {})
        memo.device.backend.run(self.name, inputs, target, {}, memo)
        storage.version += 1
        return target

    def _inplace_memo(self, inputs: Sequence[Tensor | None], attrs: Mapping[str, Any]) -> Memo:
        """The checks of a write over the first input, and what equal ones share."""
        where = self._device(inputs, None)
        target = inputs[0]
        assert target is not None
        self._check_writable(target, self.infer(*inputs, **attrs))
        memo = Memo(where, target.dtype, target.layout)
        keep(self.inplace_memos, memo, inputs, attrs)
        return memo

    def gradients(
        self, node: autograd.Node, grad: Tensor, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        """Gradients with respect to the inputs, None where not needed."""
        context = node.context
        if self.joint is not None:
            joint_context = Context(context.attrs, context.inputs, context.out, needs)
            saved = [
                node.unpack(u) if isinstance(u, str) or context.inputs[u] is not None else None
                for u in self.joint.uses
            ]
            result: tuple[Tensor | None, ...] = tuple(self.joint.fn(joint_context, grad, *saved))
            return result
        gradients: list[Tensor | None] = []
        for i, needed in enumerate(needs):
            r = self.grads[i] if needed else None
            gradients.append(None if r is None else r.fn(context, grad, *map(node.unpack, r.uses)))
        return tuple(gradients)

    def _device(self, inputs: Sequence[Tensor | None], device: Device | None) -> Device:
        for i, t in enumerate(inputs):
            if t is not None and t.dtype.kind in "qc":
                self._check_kind(i, t)
            if t is not None and t.storage.device is not device:
                if device is not None:
                    raise ValueError(self._apart(device, t.storage.device, inputs))
                device = t.storage.device
        assert device is not None, f"{self.name} has neither a tensor input nor a device"
        return device

    def _check_kind(self, i: int, t: Tensor) -> None:
        if t.dtype.kind == "c" and not self.complex:
            raise TypeError(
                f"{self.name}: {t.dtype.name} is not supported; take parts by "
                "real, imag, abs or view_as_real"
            )
        if t.dtype.kind == "q" and i not in self.blocks:
            raise TypeError(
                f"{self.name}: {t.dtype.name} blocks (shape {t.shape}) are not supported; "
                "dequantize() the tensor first"
            )

    def _apart(self, a: Device, b: Device, inputs: Sequence[Tensor | None]) -> str:
        if "meta" not in (a.type, b.type):
            return f"{self.name}: tensors on {a} and {b}; move one with .to({str(a)!r})"
        bare = [(i, t) for i, t in enumerate(inputs) if t is not None and t.device.type == "meta"]
        return (
            f"{self.name}: input {bare[0][0]} of shape {bare[0][1].shape} is on the meta device "
            f"and has no values, another is on {a if b.type == 'meta' else b}; if it belongs to a "
            "module, call the module's .init_() or load weights into it"
        )

    def record(
        self, out: Tensor, inputs: Sequence[Tensor | None], attrs: Mapping[str, Any]
    ) -> None:
        """Attach a node to `out` if an input needs a gradient; RuntimeError if one is outdated."""
        for t in inputs:
            if t is not None and (t.needs_grad or t._stamp != t.storage.history):
                break
        else:
            return
        self.check_current(inputs)
        if not self.differentiable or out.dtype.kind not in "fc":
            return
        needs = tuple([t is not None and t.needs_grad for t in inputs])
        if not any(needs):
            return
        saved = self._saved(inputs, needs)
        if self._uses_out(needs):
            saved["out"] = out.alias(out.layout)
        edges = [autograd.edge_of(t) for t in inputs]
        out.node = autograd.Node(self, self._context(out, inputs, attrs, needs), edges, saved)
        out.needs_grad = True
        if saving.active:
            out.node.nan = saving.gave_nan(out)

    def _context(
        self,
        out: Tensor,
        inputs: Sequence[Tensor | None],
        attrs: Mapping[str, Any],
        needs: tuple[bool, ...],
    ) -> Context:
        metas = tuple(None if t is None else Meta(t.dtype, t.layout) for t in inputs)
        return Context(attrs, metas, Meta(out.dtype, out.layout), needs)

    def _rules(self, needs: tuple[bool, ...]) -> list[Rule]:
        if self.joint is not None:
            return [self.joint]
        rules = [r for r, needed in zip(self.grads, needs, strict=False) if needed and r]
        if len(rules) < sum(needs):
            index = next(
                i for i, n in enumerate(needs) if n and (i >= len(self.grads) or not self.grads[i])
            )
            raise RuntimeError(f"{self.name}: input {index} has no gradient; pass it detached")
        return rules

    def _saved(
        self, inputs: Sequence[Tensor | None], needs: tuple[bool, ...]
    ) -> dict[Uses, Tensor]:
        saved: dict[Uses, Tensor] = {}
        for r in self._rules(needs):
            for u in r.uses:
                if isinstance(u, int):
                    value = inputs[u]
                    if value is not None:
                        saved[u] = value
        return saved

    def uses(self, needs: tuple[bool, ...]) -> set[Uses]:
        """The values that gradient rules need if these inputs need a gradient."""
        return {u for r in self._rules(needs) for u in r.uses}

    def _uses_out(self, needs: tuple[bool, ...]) -> bool:
        return any("out" in r.uses for r in self._rules(needs))

    def check_current(self, inputs: Sequence[Tensor | None]) -> None:
        """Bring histories of views up to date; RuntimeError for one that cannot be followed."""
        for t in inputs:
            if t is not None and not t.is_current and not t.refresh():
                raise RuntimeError(
                    f"{self.name}: a tensor of shape {t.shape} shares memory with one that was "
                    "modified in place while grads were recorded; take the view again, by x[i], "
                    "after the write"
                )

    def _check_writable(self, target: Tensor, meta: Meta) -> None:
        if target.storage.inference and not inference.on:
            raise RuntimeError(
                f"{self.name}_: Inplace update to inference tensor outside InferenceMode is not "
                "allowed; clone() it first, or write to it within inference_mode"
            )
        if meta.shape != target.shape:
            raise ShapeError(
                f"{self.name}_: the result has shape {meta.shape}, which does not fit in place "
                f"into {target.shape}"
            )
        if meta.dtype is not target.dtype:
            raise TypeMismatch(
                f"{self.name}_: the result is {meta.dtype.name}, which does not fit in place "
                f"into {target.dtype.name}"
            )
        if target.layout.repeats:
            raise RuntimeError(
                f"{self.name}_: several elements of this expanded tensor share one position "
                "in memory; clone() it before writing"
            )

    def check_recordable(self, target: Tensor) -> None:
        """Raise RuntimeError where a write to `target` cannot be recorded."""
        chain = getattr(target, "chain", None) if target.is_view else None
        root = target if chain is None else chain[0]
        if any(t.needs_grad and t.node is None for t in (target, root)):
            which = "a leaf" if root is target else "a view of a leaf"
            raise RuntimeError(
                f"{self.name}_: {which} Variable that requires grad is being used in an in-place "
                "operation; do it under rl.no_grad()"
            )
        if target.is_view and chain is None:
            raise RuntimeError(
                f"{self.name}_: this is a view taken under no_grad, or one of the several results "
                "of split, chunk or unbind; writing to it is not differentiated. Take the view by "
                "x[i] where grads are recorded, or use the out-of-place op"
            )

    def __repr__(self) -> str:
        return f"<op {self.name}>"

"""Checkpoints: a part of a model keeps nothing for backward, which runs that part again."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rushlight.core.autograd.function import Function
from rushlight.core.backends import generator_states, restore_generators
from rushlight.core.jit import capture
from rushlight.core.tensor import sweep
from rushlight.core.tensor.grad_mode import autocast_of, enable_grad, is_grad_enabled, mode
from rushlight.core.tensor.saving import saved_tensors_hooks
from rushlight.core.tensor.tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function saved other tensors than the first."""


class _Done(Exception):
    """The second run has computed all that is needed."""


class _Holder:
    """The place of one saved tensor; `value` is there after the second run."""

    value: Tensor | None = None


class _Frame:
    """One checkpointed call."""

    def __init__(self, run: Callable[[], Any], preserve: bool, early_stop: bool) -> None:
        self.run, self.early_stop = run, early_stop
        self.holders: list[weakref.ref[_Holder]] = []
        self.states = generator_states() if preserve else []
        self.dtypes = mode.dtypes

    def pack(self, x: Tensor) -> _Holder:
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        if holder.value is None:
            self.again()
        if holder.value is None:
            raise CheckpointError(
                "checkpoint: the second run saved fewer tensors for backward than the first; the "
                "function must do the same each time"
            )
        return holder.value

    def again(self) -> None:
        """Run the function once more, and keep what it saves for the holders that are alive."""
        last = max(i for i, ref in enumerate(self.holders) if ref() is not None)
        count = 0

        def pack(x: Tensor) -> Tensor:
            nonlocal count
            number, count = count, count + 1
            holder = self.holders[number]() if number < len(self.holders) else None
            if holder is not None:
                holder.value = x.detach()
            if number == last and self.early_stop:
                raise _Done
            return x

        now = generator_states()
        restore_generators(self.states)
        try:
            with enable_grad(), autocast_of(self.dtypes), saved_tensors_hooks(pack, lambda x: x):
                self.run()
        except _Done:
            pass
        finally:
            if self.states:
                restore_generators(now)


class _Again(Function):
    """A call without a graph; backward runs it with one, and goes through that at once."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """What `run` gives."""
        ctx.run, ctx.args, ctx.dtypes = run, args, mode.dtypes
        ctx.states = generator_states() if preserve else []
        ctx.save_for_backward(*(a if isinstance(a, Tensor) else None for a in args))
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients of the arguments; those of others are added to their .grad."""
        if sweep.is_partial():
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an "
                "`inputs` parameter to .backward(); set use_reentrant=False"
            )
        arguments = [
            a if s is None else s.detach().requires_grad_(a.requires_grad)
            for a, s in zip(ctx.args, ctx.saved_tensors, strict=True)
        ]
        now = generator_states()
        restore_generators(ctx.states)
        try:
            with enable_grad(), autocast_of(ctx.dtypes):
                out = ctx.run(*arguments)
        finally:
            if ctx.states:
                restore_generators(now)
        outs = out if isinstance(out, tuple) else (out,)
        due = [
            (o, g)
            for o, g in zip(outs, grads, strict=True)
            if isinstance(o, Tensor) and o.requires_grad
        ]
        if not due:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        sweep.backward([o for o, _ in due], [g for _, g in due])
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in arguments)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]] = (
        lambda: (nullcontext(), nullcontext())
    ),
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), whose graph keeps no intermediate values; backward runs it again.

    preserve_rng_state: the second run draws the same random numbers. context_fn: gives the context
    managers of the first and of the second run. early_stop: the second run ends where all saved
    values are there. CheckpointError where the second run saves other tensors than the first.

    use_reentrant: False, which None means here, or True for torch's older way: it keeps no graph
    where no argument needs a gradient (a warning), takes no keyword arguments, and backward fills
    .grad only (RuntimeError within `rl.autograd.grad`).

    ValueError for another `determinism_check` than "default" and "none"; `debug` changes nothing.
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check {determinism_check!r}; supported: default, none")
    if use_reentrant:
        if kwargs:
            raise ValueError(
                f"Unexpected keyword arguments: {', '.join(kwargs)}; use_reentrant=False takes them"
            )
        if is_grad_enabled() and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
            )
        return _Again.apply(function, preserve_rng_state, *args)
    first, second = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)

    def run() -> None:
        with second:
            function(*args, **kwargs)

    frame = _Frame(run, preserve_rng_state, early_stop)
    with saved_tensors_hooks(frame.pack, frame.unpack), first:
        out = function(*args, **kwargs)
    if capture.active and frame.states != generator_states()[: len(frame.states)]:
        capture.refuse("a checkpoint draws random numbers, which a replay cannot repeat")
    return out


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """The functions (a Sequential or a list) in turn, in `segments` parts; all but the last part
    are checkpointed. preserve_rng_state may be given.

    `input` is that of the first, `use_reentrant` as in `checkpoint`. Raises ValueError for other
    `kwargs`, and for segments below 1.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {', '.join(kwargs)}")
    each = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if segments < 1:
        raise ValueError(f"checkpoint_sequential: segments is {segments}; it must be positive")

    def part(fns: Iterable[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for fn in fns:
                x = fn(x)
            return x

        return run

    size, end = len(each) // segments, 0
    for start in range(0, size * (segments - 1), size) if size else ():
        end = start + size
        input = checkpoint(
            part(each[start:end]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return part(each[end:])(input)

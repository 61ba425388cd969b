"""jit: capture a step once and replay it as one flat plan."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

Fn = TypeVar("Fn", bound=Callable[..., Any])


@overload
def jit(fn: Fn, *, reuse_outputs: bool = False) -> Fn: ...
@overload
def jit(fn: None = None, *, reuse_outputs: bool = False) -> Callable[[Fn], Fn]: ...
def jit(fn: Fn | None = None, *, reuse_outputs: bool = False) -> Fn | Callable[[Fn], Fn]:
    """`fn` with its ops captured on the first call of a signature and replayed afterwards.

    Arguments and results are nested dicts, lists and tuples of tensors and Python scalars; a
    signature is the shapes, strides, dtypes and devices of the tensors and the values of the
    scalars. reuse_outputs: the next call may overwrite the results of this one. On `cpu` there is
    nothing to capture yet: every call runs `fn` itself, so results are always its own.

    Usable as `rl.jit(fn)`, `@rl.jit` and `@rl.jit(reuse_outputs=True)`.
    """
    if fn is None:
        return functools.partial(jit, reuse_outputs=reuse_outputs)
    if not callable(fn):
        raise TypeError(f"jit: {fn!r} is not callable")

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call

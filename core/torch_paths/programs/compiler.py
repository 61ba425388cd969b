"""torch.compiler and torch._dynamo: what programs ask and set of captured functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core.jit import capture, compiling
from rushlight.core.settings.standins import refuse_all

__all__ = ["allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "disable",
           "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting",
           "list_backends", "reset", "set_default_backend", "set_stance",
           "substitute_in_graph"]  # fmt: skip


def is_compiling() -> bool:
    """Whether a function is being captured."""
    return bool(capture.active and capture.capturing())


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """False."""
    return False


def reset() -> None:
    """Forget what compiled functions captured, and which of them run eagerly."""
    compiling.reset()


reset_code_caches = reset


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function runs eagerly, as do compiled functions that it calls; also a decorator."""
    if fn is None:
        return lambda found: disable(found, recursive)
    return compiling.eagerly(fn)


run = disable


def graph_break(msg: str = "") -> None:
    """In a compiled function: the function runs eagerly."""
    compiling.break_capture("it calls graph_break")


def allow_in_graph(fn: Any) -> Any:
    """The function itself: all ops are captured."""
    return fn


disallow_in_graph = forbid_in_graph = assume_constant_result = nonstrict_trace = allow_in_graph
nested_compile_region = mark_static_address = allow_in_graph


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator that gives the function back."""
    return lambda fn: fn


def cudagraph_mark_step_begin() -> None:
    """Nothing to do."""


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Accepted: each shape is captured by itself."""


mark_static = maybe_mark_dynamic = mark_dynamic


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """torch's names that `rl.compile` takes."""
    return list(compiling.BACKENDS)


def get_default_backend() -> str:
    """ "inductor"."""
    return compiling.BACKENDS[0]


def set_default_backend(backend: Any) -> None:
    """Accepted: one backend captures."""


@contextmanager
def set_stance(stance: str = "default", **options: Any) -> Iterator[None]:
    """In the block "force_eager" runs compiled functions eagerly; other stances change nothing."""
    with compiling.eager_block(stance in ("force_eager", "eager_on_recompile")):
        yield


globals().update(
    refuse_all(
        "compiler",
        "precompile save_cache_artifacts load_cache_artifacts load_compiled_function "
        "wrap_numpy explain export",
        "what is captured lives in the process; supported: rl.compile, rl.jit",
    )
)

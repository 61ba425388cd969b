"""torch.fx: graphs of Python programs that programs rewrite; here only its decorators serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.settings.standins import refuse_all


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """The function or name itself: it is called as it is."""
    return fn_or_name


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return fn


globals().update(
    refuse_all(
        "fx",
        "symbolic_trace Tracer Graph GraphModule Node Proxy Interpreter Transformer CodeGen "
        "ProxyableClassMeta replace_pattern ShapeProp passes",
        "modules run as Python and are not turned into graphs; use forward hooks to see or change "
        "what layers give, rl.jit to capture a function",
    )
)

"""Nested dicts, lists and tuples of values, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def _parts(value: Any) -> list[Any] | None:
    """The values in a container; None for a leaf."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if type(value) in (list, tuple) or hasattr(value, "_fields") else None


def leaves(value: Any) -> list[Any]:
    """What is not a container, in order."""
    parts = _parts(value)
    return [value] if parts is None else [leaf for child in parts for leaf in leaves(child)]


def rebuilt(value: Any, remaining: Iterator[Any]) -> Any:
    """A value of the same containers with the leaves `remaining`."""
    parts = _parts(value)
    if parts is None:
        return next(remaining)
    new = [rebuilt(child, remaining) for child in parts]
    if isinstance(value, dict):
        return type(value)(zip(value, new, strict=True))
    return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)


def mapped(fn: Callable[[Any], Any], value: Any) -> Any:
    """`value` with `fn` applied to its leaves."""
    return rebuilt(value, iter([fn(leaf) for leaf in leaves(value)]))


def spread_like(name: str, prefix: Any, value: Any) -> list[Any]:
    """For each leaf of `value`, the leaf of `prefix`, whose containers may end earlier.

    `name` is in the message. Raises ValueError for another structure.
    """
    if isinstance(prefix, (list, tuple, dict)):
        parts, below = _parts(value), _parts(prefix)
        same = isinstance(value, dict) is isinstance(prefix, dict) and parts is not None
        if not same or below is None or parts is None or len(parts) != len(below):
            raise ValueError(f"vmap: {name} {prefix!r} does not have the structure of the values")
        if isinstance(prefix, dict):
            below = [prefix[key] for key in value]
        pairs = zip(below, parts, strict=True)
        return [leaf for g, child in pairs for leaf in spread_like(name, g, child)]
    return [prefix] * len(leaves(value))

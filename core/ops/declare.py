"""Decorators that declare public names: `rl.NAME`, a method, `rl.nn.functional.NAME`.

The declaration is the only list of a public name. `core/functional/declared.py` makes the public
functions and the methods of Tensor from all declarations; tools/stubs.py writes their types.
Within `rl.autocast` a declared function follows its lists (core/ops/autocast.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from rushlight.core.ops.autocast import listed

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

PUBLIC: dict[str, Function] = {}  # rl.NAME
NETWORK: dict[str, Function] = {}  # rl.nn.functional.NAME
METHODS: dict[str, Function] = {}  # Tensor.NAME
SPECIAL: dict[str, Function] = {}  # rl.special.NAME
LINALG: dict[str, Function] = {}  # rl.linalg.NAME
FFT: dict[str, Function] = {}  # rl.fft.NAME


def _enter(table: dict[str, Function], name: str, fn: Function) -> None:
    if name in table:
        raise ValueError(f"{fn.__module__}: {name} is already declared in {table[name].__module__}")
    table[name] = fn


def public(fn: F) -> F:
    """Declare `fn` as rl.NAME, under its own name; its module's `import *` exports it too."""
    fn = listed(fn)
    _enter(PUBLIC, fn.__name__, fn)
    vars(sys.modules[fn.__module__]).setdefault("__all__", []).append(fn.__name__)
    return fn


def network(fn: F) -> F:
    """Declare `fn` as rl.nn.functional.NAME."""
    fn = listed(fn)
    _enter(NETWORK, fn.__name__, fn)
    return fn


def _entering(table: dict[str, Function], names: tuple[str, ...]) -> Callable[[F], F]:
    def enter(fn: F) -> F:
        fn = listed(fn)
        for name in names or (fn.__name__,):
            _enter(table, name, fn)
        return fn

    return enter


def method(*names: str) -> Callable[[F], F]:
    """Declare a method of Tensor, under the function's name or these: "add", "__add__"."""
    return _entering(METHODS, names)


def special(*names: str) -> Callable[[F], F]:
    """Declare `fn` as rl.special.NAME, under its own name or these."""
    return _entering(SPECIAL, names)


def linalg(*names: str) -> Callable[[F], F]:
    """Declare `fn` as rl.linalg.NAME, under its own name or these."""
    return _entering(LINALG, names)


def fft(*names: str) -> Callable[[F], F]:
    """Declare `fn` as rl.fft.NAME, under its own name or these."""
    return _entering(FFT, names)


def also(*names: str, methods: bool = True) -> Callable[[F], F]:
    """Declare `fn` under more names: rl.NAME, and the method unless `methods` is false."""

    def enter(fn: F) -> F:
        fn = listed(fn)
        for name in names:
            _enter(PUBLIC, name, fn)
            if methods:
                _enter(METHODS, name, fn)
        return fn

    return enter

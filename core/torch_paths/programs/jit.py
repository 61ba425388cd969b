"""torch.jit: functions and modules run as Python; `script` and `trace` give them back.

`rl.jit` (also `rl.compile`) captures ops and replays them. Files of TorchScript hold programs,
which are not run here.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rushlight.core.nn.module import Module
from rushlight.core.settings.standins import refuse_all
from rushlight.core.torch_paths.machine.futures import Future

ScriptModule = Module
Final = Final  # noqa: PLW0127  torch.jit.Final


class ScriptFunction:
    """The type of compiled functions of torch; functions here stay Python's."""


class Error(RuntimeError):
    """An error of a compiled function."""


class Attribute:
    """A value with its type, which is not checked."""

    def __new__(cls, value: Any, type: Any) -> Any:
        return value


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """The function, class or module itself."""
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """The function or module itself, which runs as Python in every call.

    A branch on values is taken anew in each call; torch's trace repeats the one it saw.
    """
    return func


def trace_module(mod: Module, inputs: Any, *args: Any, **options: Any) -> Module:
    """The module itself."""
    return mod


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The method itself."""
    return fn


script_if_tracing = export = interface = script_method


def ignore(drop: Any = False, **options: Any) -> Any:
    """A decorator that gives the function back, with and without arguments."""
    return drop if callable(drop) else script_method


unused = script_method


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's isinstance, which takes a list of types too."""
    types = tuple(target_type) if builtins.isinstance(target_type, list) else target_type
    return builtins.isinstance(obj, types)


def freeze(mod: Module, *args: Any, **options: Any) -> Module:
    """The module itself."""
    return mod


def optimize_for_inference(mod: Module, *args: Any, **options: Any) -> Module:
    """The module itself."""
    return mod


def fork(func: Callable[..., Any], *args: Any, **options: Any) -> Future:
    """Call the function now; a future that has its value."""
    future = Future()
    future.set_result(func(*args, **options))
    return future


def wait(future: Future) -> Any:
    """The future's value."""
    return future.wait()


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted; nothing to do."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Accepted; nothing to do."""
    return []


@contextmanager
def strict_fusion() -> Iterator[None]:
    """Nothing to check."""
    yield


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Accepted; nothing to do."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Accepted; nothing to do."""
    yield


globals().update(refuse_all(
    "jit", "save load CompilationUnit export_opnames jit_module_from_flatbuffer "
    "save_jit_module_to_flatbuffer",
    "files of TorchScript hold programs, which are not run; save model.state_dict() with rl.save",
))  # fmt: skip

NAMES = [
    name
    for name in globals()
    if not name.startswith("_")
    and name
    not in ("Callable", "Iterator", "contextmanager", "annotations", "builtins", "refuse_all")
]

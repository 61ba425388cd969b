"""compile: torch's form of `jit`. What cannot be captured runs eagerly, which is said once.

`jit` raises where a function reads values; a compiled function goes on, and its later calls with
that signature run eagerly. While a function is captured, what Python does beside ops is watched:
output, clocks, random numbers of Python, changed attributes, globals and lists. A replay would not
repeat that, so it makes the function run eagerly. Python values that the function reads are noted,
and where one has changed the function is captured again, as torch's guards do.
"""

from __future__ import annotations

import functools
import gc
import inspect
import io
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rushlight.core.basis.errors import CaptureError
from rushlight.core.jit import capture
from rushlight.core.jit.function import jit
from rushlight.core.jit.python_state import PythonState
from rushlight.core.jit.pytree import Signature
from rushlight.core.nn.module import Module

BACKENDS = ("inductor", "cudagraphs", "onnxrt", "openxla", "tvm", "eager", "aot_eager")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_RECAPTURES = 8  # with other Python values before a function runs eagerly; torch's number
_log = logging.getLogger("rushlight.compile")
_made: weakref.WeakSet[Any] = weakref.WeakSet()


class _Local(threading.local):
    entered = 0  # how often a compiled function's own code has run
    captured = False  # whether the last of them was traced
    eager = 0


_local = _Local()


def break_capture(why: str) -> None:
    """Let the function that is being captured run eagerly."""
    capture.refuse(why)


@contextmanager
def eager_block(on: bool = True) -> Iterator[None]:
    """Within this block compiled functions run eagerly, in this thread."""
    _local.eager += on
    try:
        yield
    finally:
        _local.eager -= on


def eagerly(fn: Any) -> Any:
    """fn run eagerly; of a module, its forward."""
    if isinstance(fn, Module):
        object.__setattr__(fn, "forward", eagerly(fn.forward))
        return fn

    def call(*args: Any, **options: Any) -> Any:
        capture.refuse(f"{getattr(fn, '__name__', fn)} is excluded from compilation")
        with eager_block():
            return fn(*args, **options)

    return functools.wraps(fn)(call)


def reset() -> None:
    """Forget what every compiled function captured."""
    for each in list(_made):
        each.clear()


def _noise(function: Any) -> str:
    """What a C function does that a replay would not repeat; "" for others."""
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if function is print or function is input:
        return f"it calls {name}"
    if name == "write" and (isinstance(owner, io.IOBase) or hasattr(owner, "flush")):
        return "it writes to a file"
    if type(owner).__module__.partition(".")[0] == "random" or (
        "numpy.random" in type(owner).__module__
    ):
        return "it draws random numbers of Python or NumPy"
    return "it reads the clock" if owner is time and name != "sleep" else ""


class _Compiled:
    """A function, its captured form, and the Python values that the captures depend on."""

    def __init__(self, fn: Callable[..., Any], fullgraph: bool) -> None:
        self.fn, self.fullgraph, self.name = (
            fn,
            fullgraph,
            getattr(fn, "__name__", type(fn).__name__),
        )
        self.said: set[str] = set()
        self.clear()
        _made.add(self)

    def clear(self) -> None:
        """Forget what was captured."""
        self.captured: Any = jit(self._body)
        self.state: PythonState | None = None
        self.recaptures, self.always = 0, ""

    def _say(self, why: str) -> None:
        if why not in self.said:
            self.said.add(why)
            _log.warning("compile: %s runs eagerly: %s", self.name, why)

    def _body(self, *args: Any, **options: Any) -> Any:
        """The function, watched while it is traced."""
        _local.entered += 1
        hooks = capture.current()
        _local.captured = hooks is not None
        if hooks is None:
            return self.fn(*args, **options)
        hooks.lenient = not self.fullgraph
        state = PythonState(self.fn, (args, options))
        result, noise = self._watched(args, options)
        if noise and self.fullgraph:
            raise CaptureError(
                f"compile: {self.name} with fullgraph=True: {noise}; leave "
                "fullgraph out to run such calls eagerly"
            )
        why = noise or state.changed()
        try:
            Signature(result)
        except TypeError as error:
            why = why or f"of its result: {error}"
        if why:
            capture.refuse(why)
            self.always = why if noise else self.always
        if self.state is None:
            self.state = state
        return result

    def _watched(self, args: Any, options: Any) -> tuple[Any, str]:
        noise: list[str] = []

        def look(frame: Any, event: str, function: Any) -> None:
            if event == "c_call" and not noise and (why := _noise(function)):
                if not str(frame.f_globals.get("__name__", "")).startswith("rushlight."):
                    noise.append(why)

        before, collecting = sys.getprofile(), gc.isenabled()
        gc.disable()  # the callbacks of a collection are not what the function does
        sys.setprofile(look)
        try:
            return self.fn(*args, **options), "".join(noise)
        finally:
            sys.setprofile(before)
            if collecting:
                gc.enable()

    def __call__(self, *args: Any, **options: Any) -> Any:
        if _local.eager or self.always:
            return self.fn(*args, **options)
        if self.state is not None and self.state.changed():
            self.captured.executables.clear()
            self.state, self.recaptures = None, self.recaptures + 1
            if self.recaptures > _RECAPTURES:
                self.always = "Python values that it reads change from call to call"
                self._say(self.always)
                return self.fn(*args, **options)
        before, _local.captured = _local.entered, False
        try:
            result = self.captured(*args, **options)
        except TypeError as error:
            if _local.entered != before:
                raise  # the function's own
            self._say(str(error).removeprefix("jit: "))
            return self.fn(*args, **options)
        if _local.captured:
            _local.captured = False
            last = next(reversed(self.captured.executables.values()), None)
            if last is not None and last.why:
                self._say(last.why)
        return result


class OptimizedModule(Module):
    """A module that `compile` captures; the module itself is `_orig_mod`, as in torch.

    Names of the state dict begin with "_orig_mod.". Attributes, train and eval are the module's.
    """

    def __init__(self, module: Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self._orig_mod = module
        object.__setattr__(self, "_call", call)
        object.__setattr__(self, "training", module.training)

    def forward(self, *args: Any, **options: Any) -> Any:
        """What the module gives."""
        return self._call(*args, **options)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Set `training` of the module and of this one."""
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            raise AttributeError(name)
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_orig_mod", "training", "forward") or "_orig_mod" not in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._orig_mod)  # type: ignore[call-overload, no-any-return]

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]  # type: ignore[index]

    def __reduce__(self) -> Any:
        return compile, (self._orig_mod,)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
) -> Any:
    """A function or module whose ops are captured and replayed as `jit` does, in torch's form.

    Also a decorator, with and without arguments. What a replay could not repeat runs eagerly, with
    one line in the log "rushlight.compile" that says why: reads of values (item, bool, print of a
    tensor, a mask as index), output, changes to Python objects, arguments that `jit` does not
    take, results that need a gradient. fullgraph=True raises CaptureError at such a read or output.
    Each combination of shapes and Python values is captured by itself. A changed attribute or
    global is noticed; after eight changes the function runs eagerly.

    A module gives a module whose `_orig_mod` is the first one. disable=True gives `model` back.
    dynamic, mode and options are accepted: there is one way to capture. backend: a name that torch
    knows, or a function, which is not called. ValueError for another backend or mode.
    """
    if isinstance(backend, str) and backend not in BACKENDS:
        raise ValueError(
            f"compile: backend {backend!r} is not supported; supported: "
            f"{', '.join(BACKENDS)}; all of them capture in the same way"
        )
    if mode is not None and mode not in MODES:
        raise ValueError(f"compile: mode {mode!r} is not supported; supported: {', '.join(MODES)}")
    if mode is not None and options is not None:
        raise RuntimeError("compile: give either mode or options, not both")
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            name=name,
            disable=disable,
        )
    if disable or backend == "eager" or isinstance(model, OptimizedModule):
        return model
    if isinstance(model, Module):
        return OptimizedModule(model, _Compiled(model, fullgraph))
    if isinstance(model, type) and issubclass(model, Module):
        return model
    if not callable(model):
        raise TypeError(f"compile: {model!r} is not callable")
    if any(
        f(model)
        for f in (
            inspect.isgeneratorfunction,
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
        )
    ):
        _log.warning("compile: %s runs eagerly: it runs in steps", model)
        return model
    compiled = _Compiled(model, fullgraph)

    def call(*args: Any, **named: Any) -> Any:
        return compiled(*args, **named)

    call._torchdynamo_orig_callable = model  # type: ignore[attr-defined]
    call.compiled = compiled  # type: ignore[attr-defined]
    return functools.wraps(model, updated=())(call)

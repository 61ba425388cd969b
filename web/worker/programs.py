"""Programs that a page's visitor writes: their output as records, completion, documentation."""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import linecache
import re
import rlcompleter
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.web.worker.outbox import Outbox, Output, Report
from rushlight.web.worker.session import place

NAME = "<program>"
Hear = Callable[[], Awaitable[str]]  # waits for what the visitor types
_MOST_SIDE = 4096  # pixels of a picture
_MOST_POINTS = 100_000  # of a chart
_NAME = re.compile(r"[A-Za-z_][\w.]*$")
# What a program has without importing it.
_GIVEN = {"rl": rl, "rushlight": rl, "np": np, "nn": rl.nn, "F": rl.nn.functional}
_last: dict[str, Any] = {}  # the names of the program that ran last
_CHARTS = "plot(y) draws a chart and display(picture) shows a picture; both need no import."
_FETCH = "`from pyodide.http import pyfetch` and `await pyfetch(address)` read an address."
# What there is instead of a package that this page has not.
_INSTEAD = {
    **dict.fromkeys(("matplotlib", "pylab", "seaborn", "plotly", "bokeh", "altair"), _CHARTS),
    **dict.fromkeys(("PIL", "cv2", "imageio", "skimage"), _CHARTS),
    **dict.fromkeys(("requests", "httpx", "urllib3", "aiohttp"), _FETCH),
    "torch": "`import rushlight as torch` runs most programs of PyTorch.",
    "torchvision": "`rl.models` and `rl.datasets` have much of it.",
}


async def run_program(code: str, device: str, tell: Report, hear: Hear | None = None) -> str:
    """Run a program with `device` as the default; returns its error as JSON, or "".

    tell(kind, JSON, bytes) is given "text" and "error" with a string, "image" with its width and
    height, "plot" with the lines of a chart, and "input" where the program waits for `hear`, what
    the visitor types. The program has `display`, `plot` and `ask` beside its imports. The value of
    a last line that is an expression is shown. An error: its text, and the line of the program.

    `code` is the program. What it raises is told, not raised.
    """
    outbox = Outbox(tell)
    ask, wait = _asking(outbox, tell, hear)
    space: dict[str, Any] = {"__name__": "__main__", "ask": ask, **_shown(outbox.put)}
    linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)
    before = sys.stdout, sys.stderr, builtins.input
    sys.stdout, sys.stderr = Output(outbox, "text"), Output(outbox, "error")
    builtins.input = wait  # type: ignore[assignment]
    try:
        opened = await place(device, None)  # again, if it was lost
        rl.set_default_device(opened["device"])
        tree = ast.parse(code, NAME)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        await _execute(compile(tree, NAME, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), space)
        if isinstance(last, ast.Expr):
            shown = ast.Expression(last.value)
            expression = compile(shown, NAME, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if (value := await _execute(expression, space)) is not None:
                space["display"](value)
        return ""
    except BaseException as error:  # SystemExit and KeyboardInterrupt end the program alone
        return json.dumps(_told(error))
    finally:
        sys.stdout, sys.stderr, builtins.input = before
        outbox.flush()
        rl.set_default_device(None)
        _last.clear()
        _last.update(space)


def _asking(
    outbox: Outbox, tell: Report, hear: Hear | None
) -> tuple[Callable[[object], Awaitable[str]], Callable[[object], str]]:
    """`ask`, which a program awaits, and `input`, which waits by itself where a browser can."""

    async def ask(prompt: object = "") -> str:
        """What the visitor types, to be awaited: name = await ask("Your name? ")."""
        if hear is None:
            raise EOFError("ask: nobody can type here")
        outbox.put("text", str(prompt))
        outbox.flush()
        tell("input", json.dumps(str(prompt)), None)
        answer = str(await hear())
        outbox.put("text", f"{answer}\n")
        return answer

    def wait(prompt: object = "", /) -> str:
        """What the visitor types."""
        if hear is None:
            raise EOFError("input: nobody can type here")
        from pyodide.ffi import can_run_sync, run_sync  # type: ignore[import-not-found]

        if not can_run_sync():
            raise RuntimeError(
                "input() cannot wait in this browser, which lacks JSPI; write: await ask(...)"
            )
        return str(run_sync(ask(prompt)))

    return ask, wait


async def _execute(code: CodeType, space: dict[str, Any]) -> Any:
    value = eval(code, space)
    return await value if code.co_flags & inspect.CO_COROUTINE else value


def _told(error: BaseException) -> dict[str, Any]:
    """An error's text from the program's own lines on, and its line; 0 if it has none."""
    if isinstance(error, SystemExit):
        return {"text": f"SystemExit: {error.code}", "line": 0}
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != NAME:
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    if isinstance(error, ModuleNotFoundError) and error.name:
        text += _without(error.name)
    lines = [f.lineno for f in traceback.extract_tb(frames) if f.filename == NAME]
    line = lines[-1] if lines else 0
    if isinstance(error, SyntaxError) and error.filename == NAME:
        line = error.lineno or 0
    return {"text": text[-20_000:], "line": line}


def _without(name: str) -> str:
    """What a program can do without a module that is not here."""
    package = name.split(".")[0]
    if package in sys.stdlib_module_names:
        return f"A browser tab has no {name}: it needs what only a process has.\n"
    more = _INSTEAD.get(package, "")
    return (
        "This page has Python's standard library, NumPy and Rushlight, and installs no packages. "
        f"{more or f'Where it is installed, a Python process has {package}.'}\n"
    )


def _shown(tell: Callable[..., None]) -> dict[str, Any]:
    """`display` and `plot` of a program."""

    def display(value: Any) -> None:
        """Show a value: an image as a picture, other values as text.

        Images are arrays or tensors (height, width), or with 1, 3 or 4 channels first or last, of
        bytes or of floats from 0 to 1, with sides of 4 pixels or more; and images of Pillow.
        """
        pixels = _pixels(value)
        if pixels is None:
            tell("text", f"{value!r}\n")
            return
        height, width = pixels.shape[:2]
        tell("image", {"width": width, "height": height}, np.ascontiguousarray(pixels).reshape(-1))

    def plot(*lines: Any, labels: Sequence[str] = (), title: str = "", kind: str = "line") -> None:
        """Draw numbers: plot(y), plot(x, y), or plot(x, y, z, ...) over one x.

        labels: of the lines. kind: "line", "scatter" or "bar".
        """
        if kind not in ("line", "scatter", "bar"):
            raise ValueError(f"plot: kind is {kind!r}; supported: line, scatter, bar")
        columns = [np.asarray(_array(v), np.float64).reshape(-1) for v in lines]
        if not columns or any(len(v) != len(columns[0]) for v in columns):
            raise ValueError(
                f"plot: {[len(v) for v in columns]} numbers; give one or more, all of one length"
            )
        if sum(map(len, columns)) > _MOST_POINTS:
            raise ValueError(f"plot: more than {_MOST_POINTS} numbers; draw every tenth, say")
        x, *ys = columns if len(columns) > 1 else (np.arange(len(columns[0])), columns[0])
        names = [*labels, *("" for _ in ys)][: len(ys)]
        rows = [{"label": str(n), "y": _plain(y)} for n, y in zip(names, ys, strict=True)]
        tell("plot", {"x": _plain(x), "lines": rows, "title": str(title), "kind": kind})

    return {"display": display, "plot": plot}


def _plain(values: Any) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]


def _array(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, rl.Tensor) else value


def _pixels(value: Any) -> Any:
    """The pixels (height, width, 4) uint8 of an image; None for what is none."""
    if hasattr(value, "convert") and hasattr(value, "size"):
        value = np.asarray(value.convert("RGBA"))
    if isinstance(value, rl.Tensor) and value.device.type == "meta":
        return None
    if not isinstance(value, rl.Tensor | np.ndarray):
        return None
    shape = tuple(value.shape)
    if len(shape) == 3 and shape[0] in (1, 3, 4) and shape[-1] not in (1, 3, 4):
        shape, first = (*shape[1:], shape[0]), True
    else:
        first = False
    sides, channels = shape[:2], shape[2:] or (1,)
    if len(shape) not in (2, 3) or channels[0] not in (1, 3, 4):
        return None
    if min(sides) < 4 or max(sides) > _MOST_SIDE:
        return None
    array = np.asarray(_array(value))
    if array.dtype.kind not in "uif" or (array.dtype.kind != "f" and array.dtype != np.uint8):
        return None
    array = (array.transpose(1, 2, 0) if first else array).reshape(*sides, channels[0])
    if array.dtype.kind == "f":
        array = (np.nan_to_num(array.astype(np.float32)).clip(0, 1) * 255).round().astype(np.uint8)
    if channels[0] == 1:
        array = array.repeat(3, 2)
    opaque = np.full((*sides, 1), 255, np.uint8)
    return array if array.shape[2] == 4 else np.concatenate([array, opaque], 2)


def complete(code: str, position: int) -> str:
    """The names that fit before the cursor, as JSON: [{"label", "type", "info"}], and where from.

    Names are those of the program that ran last, of its imports of what is loaded, and Python's.
    """
    typed = _NAME.search(code[:position])
    text = typed[0] if typed else ""
    space = {**_GIVEN, **_imports(code), **_last}
    completer = rlcompleter.Completer(space)
    try:
        match = completer.attr_matches if "." in text else completer.global_matches
        names = match(text) if text else []
    except Exception:  # a property of the visitor's own may raise anything
        names = []
    start = position - len(text.rpartition(".")[2])
    rows = [_row(name.rstrip("( )"), space) for name in dict.fromkeys(names)]
    return json.dumps({"from": start, "options": rows[:500]})


def _imports(code: str) -> dict[str, Any]:
    """What the program's imports would give, of modules that are loaded already."""
    space: dict[str, Any] = {}
    for line in code.splitlines():
        try:
            [statement] = ast.parse(line.strip()).body
        except (SyntaxError, ValueError):
            continue
        if isinstance(statement, ast.Import):
            for name in statement.names:
                if module := sys.modules.get(name.name if name.asname else name.name.split(".")[0]):
                    space[name.asname or name.name.split(".")[0]] = module
        elif isinstance(statement, ast.ImportFrom):
            module = sys.modules.get(statement.module or "")
            for name in statement.names:
                if hasattr(module, name.name):
                    space[name.asname or name.name] = getattr(module, name.name)
    return space


def _row(name: str, space: Mapping[str, Any]) -> dict[str, str]:
    value: Any = None
    try:
        first, *rest = name.split(".")
        value = space[first] if first in space else getattr(__import__("builtins"), first)
        for attribute in rest:
            value = getattr(value, attribute)
    except Exception:
        return {"label": name.rpartition(".")[2], "type": "keyword", "info": ""}
    kind = (
        "class"
        if inspect.isclass(value)
        else "namespace"
        if inspect.ismodule(value)
        else "function"
        if callable(value)
        else "variable"
    )
    return {"label": name.rpartition(".")[2], "type": kind, "info": _about(name, value, kind)}


def _about(name: str, value: Any, kind: str) -> str:
    """The signature and the first words of the documentation."""
    if kind == "variable":
        return f"{type(value).__name__}"
    try:
        signature = str(inspect.signature(value)) if kind != "namespace" else ""
    except (TypeError, ValueError):
        signature = "(…)"
    words = (inspect.getdoc(value) or "").strip()
    return f"{name.rpartition('.')[2]}{signature[:300]}\n\n{words[:1500]}".strip()

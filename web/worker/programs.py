"""Programs that a page's visitor writes: their output as records, completion, documentation."""

from __future__ import annotations

import ast
import inspect
import io
import json
import linecache
import re
import rlcompleter
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.web.worker.session import place

NAME = "<program>"
Report = Callable[[str, str, Any], None]  # kind, JSON, bytes of a picture or None
_MOST_TEXT = 1_000_000  # characters of output that a page is given
_MOST_SIDE = 4096  # pixels of a picture
_MOST_POINTS = 100_000  # of a chart
_PIECE, _PAUSE = 4096, 0.05  # characters and seconds after which output is sent
_NAME = re.compile(r"[A-Za-z_][\w.]*$")
# What a program has without importing it.
_GIVEN = {"rl": rl, "rushlight": rl, "np": np, "nn": rl.nn, "F": rl.nn.functional}
_last: dict[str, Any] = {}  # the names of the program that ran last


class _Output(io.TextIOBase):
    """Standard output of a program. Pieces go to the page in order, up to a limit."""

    def __init__(self, tell: Report, kind: str) -> None:
        self._tell, self._kind = tell, kind
        self._pieces: list[str] = []
        self._held, self._sent, self._at = 0, 0, 0.0

    def write(self, text: str) -> int:
        """Keep a piece, or send what is kept."""
        self._pieces.append(text)
        self._held += len(text)
        if self._held > _PIECE or time.perf_counter() - self._at > _PAUSE:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Send what is kept."""
        text, self._pieces, self._held = "".join(self._pieces), [], 0
        self._at = time.perf_counter()
        room = _MOST_TEXT - self._sent
        if not text or room < 0:
            return
        self._sent += len(text)
        cut = text if len(text) <= room else f"{text[:room]}\n… more output is not shown\n"
        self._sent += len(text) > room
        self._tell(self._kind, json.dumps(cut), None)


async def run_program(code: str, device: str, tell: Report) -> str:
    """Run a program with `device` as the default; returns its error as JSON, or "".

    tell(kind, JSON, bytes) is given "text" and "error" with a string, "image" with its width and
    height, and "plot" with the lines of a chart. The program has `display` and `plot` beside its
    imports. The value of a last line that is an expression is shown. An error: its text, and the
    line of the program.
    """
    outputs = [_Output(tell, "text"), _Output(tell, "error")]

    def flushed(kind: str, value: Any, data: Any = None) -> None:
        for output in outputs:
            output.flush()
        tell(kind, json.dumps(value), data)

    space: dict[str, Any] = {"__name__": "__main__", **_shown(flushed)}
    linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = outputs
    try:
        opened = await place(device, None)  # again, if it was lost
        rl.set_default_device(opened["device"])
        tree = ast.parse(code, NAME)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        await _execute(compile(tree, NAME, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), space)
        if isinstance(last, ast.Expr):
            shown = ast.Expression(last.value)
            found = compile(shown, NAME, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if (value := await _execute(found, space)) is not None:
                space["display"](value)
        return ""
    except BaseException as error:  # SystemExit and KeyboardInterrupt end the program alone
        return json.dumps(_told(error))
    finally:
        for output in outputs:
            output.flush()
        sys.stdout, sys.stderr = before
        rl.set_default_device(None)
        _last.clear()
        _last.update(space)


async def _execute(code: CodeType, space: dict[str, Any]) -> Any:
    found = eval(code, space)
    return await found if code.co_flags & inspect.CO_COROUTINE else found


def _told(error: BaseException) -> dict[str, Any]:
    """An error's text from the program's own lines on, and its line; 0 if it has none."""
    if isinstance(error, SystemExit):
        return {"text": f"SystemExit: {error.code}", "line": 0}
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != NAME:
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    lines = [f.lineno for f in traceback.extract_tb(frames) if f.filename == NAME]
    line = lines[-1] if lines else 0
    if isinstance(error, SyntaxError) and error.filename == NAME:
        line = error.lineno or 0
    return {"text": text[-20_000:], "line": line}


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
        given = [np.asarray(_array(v), np.float64).reshape(-1) for v in lines]
        if not given or any(len(v) != len(given[0]) for v in given):
            raise ValueError(f"plot: {[len(v) for v in given]} numbers; give one or more, all of "
                             "one length")  # fmt: skip
        if sum(map(len, given)) > _MOST_POINTS:
            raise ValueError(f"plot: more than {_MOST_POINTS} numbers; draw every tenth, say")
        x, *ys = given if len(given) > 1 else (np.arange(len(given[0])), given[0])
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
    found = _NAME.search(code[:position])
    text = found[0] if found else ""
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
        for part in rest:
            value = getattr(value, part)
    except Exception:
        return {"label": name.rpartition(".")[2], "type": "keyword", "info": ""}
    kind = ("class" if inspect.isclass(value) else "namespace" if inspect.ismodule(value)
            else "function" if callable(value) else "variable")  # fmt: skip
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

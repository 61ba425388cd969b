"""Docstrings: what a public function takes and raises is said, and what is said to be raised is.

`help(rl.x)` and the Playground show these texts. The rule, for each public function with three or
more parameters:

- its docstring names every parameter, as a word;
- it says what is raised: it has the word "raise" in a form, or the name of an error.

Public is what `import rushlight` reaches by names without an underscore, through modules of the
package: functions, classes (their text is the class's and that of `__init__`) and the methods of
these; methods of the classes of models; and functions of the modules in `ROOMS`.

Some texts are elsewhere, and count:

- A method that overrides another has the words of that one, too.
- A dataclass documents the fields that it adds; its base documents the others.
- A forwarding method, whose signature is only `*args` and `**kwargs`, is what it overrides.
- The array API's functions are described by the standard; their docstrings give its address.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.models.model import Model

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[1]
LEAST = 3
# Rooms whose modules' functions are held to the rule, too, those that only the package calls.
ROOMS = ("web", "site/builder", *(f"core/{name}" for name in (
    "autograd", "distributions", "func", "io", "jit", "nn", "optim", "settings", "signal", "sparse",
    "tensor", "tools", "training", "utils",
)))  # fmt: skip
SAYS = re.compile(r"\b[Rr]aise|\w+Error\b|\berrors?\b")
STANDARD = "https://data-apis.org/array-api/"


def complaint(parameters: list[str], text: str) -> str:
    """What a docstring leaves out, "" where it says everything."""
    missing = [name for name in parameters if not re.search(rf"(?<!\w){name}(?!\w)", text)]
    if len(parameters) < LEAST or STANDARD in text:
        return ""
    found = [f"does not name {', '.join(missing)}"] if missing else []
    return "; ".join(found + ["does not say what is raised"] * (not SAYS.search(text)))


# --- what is public -----------------------------------------------------------------------------


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: its `__all__`, or else those without an underscore."""
    listed: list[str] | None = getattr(module, "__all__", None)
    return listed or [name for name in vars(module) if not name.startswith("_")]


def modules() -> Iterator[tuple[str, ModuleType]]:
    """The public modules, each once, under the first name that leads to it."""
    rooms = {"rushlight.core", "rushlight.web", "rushlight.site"}
    waiting, seen = [("rl", rl)], set(rooms)
    while waiting:
        path, module = waiting.pop(0)
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        yield path, module
        for name in names_of(module):
            value = getattr(module, name, None)
            listed = hasattr(module, "__all__")  # else only what lies within the module
            within = "rushlight." if listed else f"{module.__name__}."
            if isinstance(value, ModuleType) and value.__name__.startswith(within):
                waiting.append((f"{path}.{name}", value))


def own(value: Any) -> bool:
    """Whether the package defines it."""
    return str(getattr(value, "__module__", None)).startswith("rushlight")


def parameters_of(function: Any) -> list[str]:
    """The parameters' names, but for self and private ones."""
    try:
        given = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a class of C
        return []
    return [name for name in given if name not in ("self", "cls") and not name.startswith("_")]


def method_of(kind: type, name: str) -> tuple[Any, list[str], str] | None:
    """A public method, its parameters, and its words with those of what it overrides, or None.

    The first parameter is the object or the class, whatever it is called.
    """
    held = inspect.getattr_static(kind, name)
    found = getattr(held, "__func__", held)
    if name.startswith("_") or not isinstance(found, FunctionType) or not own(found):
        return None
    if isinstance(held, staticmethod) and "." not in found.__qualname__:
        return None  # a function that a layer calls
    given = list(inspect.signature(found).parameters.values())[not isinstance(held, staticmethod) :]
    above = [base.__dict__[name] for base in kind.__mro__[1:] if name in base.__dict__]
    if above and all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in given):
        return None
    words = [getattr(value, "__doc__", None) or "" for value in (found, *above)]
    return found, [p.name for p in given if p.name[0] != "_"], "\n".join(words)


def surface() -> Iterator[tuple[str, list[str], str]]:
    """(name, parameters, words) of every public function, class and method, each once."""
    seen: set[Any] = set()

    def new(value: Any, given: list[str]) -> bool:
        """Whether it comes for the first time; a function and the method of it are two."""
        plain = value if isinstance(value, type) else inspect.unwrap(value)
        key = getattr(plain, "__code__", plain), len(given)
        return not (key in seen or seen.add(key))  # type: ignore[func-returns-value]

    def methods(path: str, kind: type) -> Iterator[tuple[str, list[str], str]]:
        for name in dir(kind):
            given = None if name.startswith("_") else method_of(kind, name)
            if given is not None and new(*given[:2]):
                yield f"{path}.{name}", given[1], given[2]

    for path, module in modules():
        for name in names_of(module):
            value = getattr(module, name, None)
            listed = hasattr(module, "__all__") or value.__class__ is ModuleType
            if not own(value) or not (listed or value.__module__ == module.__name__):
                continue
            if isinstance(value, type):
                yield from methods(f"{path}.{name}", value)
                given = parameters_of(value)
                if dataclasses.is_dataclass(value):
                    given = [n for n in given if n in value.__dict__.get("__annotations__", {})]
                first = value.__dict__.get("__init__")
                if new(value, given) and not issubclass(value, BaseException):
                    words = f"{value.__doc__ or ''}\n{getattr(first, '__doc__', None) or ''}"
                    yield f"{path}.{name}", given, words
            elif callable(value) and new(value, given := parameters_of(value)):
                yield f"{path}.{name}", given, value.__doc__ or ""
    for kind in models():
        yield from methods(kind.__qualname__, kind)


def models() -> list[type]:
    """The classes of models: what `rl.models.load` returns is of one of them."""
    for found in pkgutil.walk_packages(rl.models.__path__, "rushlight.models."):
        importlib.import_module(found.name)
    waiting: list[type] = [Model]
    for kind in waiting:
        below: list[type] = kind.__subclasses__()
        waiting += [child for child in below if child not in waiting]
    return waiting


def room_functions() -> Iterator[tuple[str, list[str], str]]:
    """(place, parameters, docstring) of the public functions of the modules of rooms.

    They are read, as some run in a tab alone.
    """
    for folder in ROOMS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                    given = node.args
                    if any("overload" in ast.unparse(line) for line in node.decorator_list):
                        continue
                    every = [
                        *given.posonlyargs,
                        *given.args,
                        *given.kwonlyargs,
                        given.vararg,
                        given.kwarg,
                    ]
                    names = [a.arg for a in every if a is not None and a.arg[0] != "_"]
                    where = f"{path.relative_to(ROOT).as_posix()}: {node.name}"
                    yield where, names, ast.get_docstring(node) or ""


# --- the rule -----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [surface, room_functions])
def test_every_parameter_is_named_and_errors_are_said(given: Callable[[], Any]) -> None:
    rows = list(given())
    long = [row for row in rows if len(row[1]) >= LEAST]
    assert len(long) >= (800 if given is surface else 150)
    wrong = [f"{name}: {said}" for name, *row in long if (said := complaint(*row))]
    if wrong:
        pytest.fail("\n".join([f"{len(wrong)} docstrings:", *wrong]), pytrace=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Adds `a`, `b` and `c`. Raises TypeError.", ""),
        ("Adds a, b and c; ValueError for others.", ""),
        ("Adds `a` and `b`. Raises TypeError.", "does not name c"),
        ("Adds `a`, `b` and `cc`. Raises TypeError.", "does not name c"),
        ("Adds `a`, `b` and `c`.", "does not say what is raised"),
        ("", "does not name a, b, c; does not say what is raised"),
    ],
)
def test_the_rule_refuses_what_is_left_out(text: str, said: str) -> None:
    assert complaint(["a", "b", "c"], text) == said
    assert complaint(["a", "b"], text) == ""


def test_what_users_call_is_public() -> None:
    names = {name for name, _, _ in surface()}
    assert {
        "rl.tensor", "rl.nn.Linear", "rl.nn.functional.cross_entropy", "rl.optim.Adam",
        "rl.Tensor.to", "rl.distributions.Normal", "rl.func.jacrev", "rl.utils.data.DataLoader",
        "rl.training.Callback.on_report", "rl.linalg.lstsq", "rl.fft.rfftn", "rl.models.load",
    } <= names  # fmt: skip
    assert any(name.endswith(".encode_iter") for name in names)


# --- what is said is true -----------------------------------------------------------------------

# "Error: expression" for a call of many public functions, whose docstring names that error.
RAISED = (ROOT / "tests" / "raised.txt").read_text(encoding="utf-8").splitlines()


def said_by(call: ast.expr, names: dict[str, Any]) -> str:
    """The docstrings of what an expression calls: a function, a method, a class and its calls."""
    if not isinstance(call, ast.Call):
        return ""
    called = call.func
    try:
        found = eval(compile(ast.Expression(called), "raised.txt", "eval"), names)
    except Exception:  # the class is what refuses
        found = None
    kinds = (found, getattr(found, "__init__", None) if isinstance(found, type) else type(found))
    more = "\n".join(getattr(value, "__doc__", None) or "" for value in kinds)
    return more + said_by(called.value if isinstance(called, ast.Attribute) else called, names)


def test_what_is_said_to_be_raised_is_raised() -> None:
    names: dict[str, Any] = {
        "rl": rl,
        "nn": rl.nn,
        "optim": rl.optim,
        "r": rl.randn,
        "z": rl.zeros,
        "t": rl.tensor,
        "i": lambda *values: rl.tensor(list(values)),
    }
    wrong = []
    for line in RAISED:
        error, _, expression = line.partition(": ")
        call = ast.parse(expression, mode="eval").body
        try:
            with warnings.catch_warnings(action="ignore"):
                eval(compile(ast.Expression(call), "raised.txt", "eval"), names)
            wrong.append(f"{line}: nothing was raised")
        except Exception as raised:
            if error not in [kind.__name__ for kind in type(raised).__mro__]:
                wrong.append(f"{line}: raised {type(raised).__name__}: {raised}")
        if not re.search(rf"\b{error}\b", said_by(call, names)):
            wrong.append(f"{line}: the docstring does not say it")
    assert wrong == []
    assert len(RAISED) >= 400

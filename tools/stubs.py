"""Write the type stubs of declared ops and composites.

``python tools/stubs.py`` writes them; a test compares them. Ops declare their public names when
their modules run, which a type checker cannot see. The stubs say which function has which name.
"""

from __future__ import annotations

import ast
import importlib
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTE = "Written by tools/stubs.py (`make format`)."

# Modules of the table of torch's paths that programs with types import; a file for each of the
# others would be of no use to most, and every tab loads the wheel.
TABLED = """distributed hub multiprocessing nn.attention nn.parallel profiler testing types
    utils.benchmark utils.dlpack utils.tensorboard version"""

Functions = Mapping[str, Callable[..., Any]]


def _wrapped(before: str, names: list[str], after: str) -> str:
    lines = textwrap.wrap(", ".join(names), 96, break_long_words=False, break_on_hyphens=False)
    return "\n".join([before, *(f"    {line}" for line in lines), after])


def _imports(functions: Functions, prefix: str = "") -> list[str]:
    """The lines that import functions from their modules, with a prefix under other names."""
    modules: dict[str, set[str]] = {}
    for fn in functions.values():
        modules.setdefault(fn.__module__, set()).add(fn.__name__)
    return [
        _wrapped(
            f"from {module} import (",
            [f"{n} as {prefix}{n}" if prefix else n for n in sorted(modules[module])],
            ")",
        )
        for module in sorted(modules)
    ]


def _exported(functions: Functions) -> list[str]:
    names = [f'"{name}"' for name in sorted(functions)]
    # In-place forms are made by a loop: their module has no types for them.
    looped = {n: fn for n, fn in functions.items() if fn.__module__.endswith("functional.inplace")}
    functions = {n: fn for n, fn in functions.items() if n not in looped}
    forms = [f"{name}: _Callable[..., _Tensor]" for name in sorted(looped)]
    listed = _wrapped("__all__ = [", names, "]")
    return [*_imports(functions), *forms, "", listed, *_aliases(functions)]


def _aliases(functions: Functions) -> list[str]:
    """Second names of functions that the stub imports under their own."""
    return [f"{n} = {fn.__name__}" for n, fn in sorted(functions.items()) if n != fn.__name__]


def _methods(functions: Functions) -> list[str]:
    # object declares these two with another type.
    pragma = dict.fromkeys(("__eq__", "__ne__"), "  # type: ignore[assignment]")
    return [
        f"    {name} = _op_{fn.__name__}{pragma.get(name, '')}"
        for name, fn in sorted(functions.items())
    ]


def declared() -> str:
    """The text of core/functional/declared.pyi."""
    from rushlight.core.ops.declare import METHODS, PUBLIC

    lines = [f'"""Types of the public functions and of the methods. {NOTE}"""', ""]
    lines += [
        "from collections.abc import Callable as _Callable",
        "",
        "from rushlight.core.tensor.tensor import Tensor as _Tensor",
        "",
    ]
    lines += [*_imports(METHODS, "_op_"), *_exported(PUBLIC)]
    lines += ["", "from rushlight.core.tensor.op import Meta", ""]
    lines += ["class Declared(Meta):", *_methods(METHODS)]
    return "\n".join(lines) + "\n"


def network() -> str:
    """The text of core/nn/functional.pyi."""
    from rushlight.core.ops.declare import NETWORK

    lines = [f'"""Types of rl.nn.functional. {NOTE}"""', "", *_exported(NETWORK)]
    return "\n".join(lines) + "\n"


def listed(name: str) -> str:
    """The text of core/special.pyi and its like."""
    from rushlight.core.ops import declare

    table: Functions = getattr(declare, name.upper())
    lines = [f'"""Types of rl.{name}. {NOTE}"""', "", *_exported(table)]
    if name == "linalg":
        lines.insert(2, "from rushlight.core.basis.errors import LinalgError as LinAlgError")
    return "\n".join(lines) + "\n"


def _static(module: ModuleType) -> bool:
    """Whether a type checker can read which names a module exports."""
    path = Path(str(module.__file__))
    path = path.with_suffix(".pyi") if path.with_suffix(".pyi").exists() else path
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return isinstance(node.value, ast.List) and all(
                isinstance(name, ast.Constant) for name in node.value.elts
            )
    return True


def _named(module: ModuleType) -> list[str]:
    """The lines that import what a module exports from where it is defined."""
    places: dict[str, str] = {}
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            places[name] = value.__name__.rpartition(".")[0]
        else:
            places[name] = getattr(value, "__module__", "")
    ours = {name: place for name, place in places.items() if place.startswith("rushlight.")}
    return [
        _wrapped(
            f"from {place} import (",
            [f"{name} as {name}" for name, defined in ours.items() if defined == place],
            ")",
        )
        for place in sorted(set(ours.values()))
    ]


def modules() -> dict[str, str]:
    """The files in src/rushlight/ by which editors and type checkers find `rushlight.nn`.

    No program runs them: `import rushlight` has entered the modules of core/ under these names.
    """
    from rushlight.core.torch_paths import finder

    rows = {path: f"rushlight.{finder.table()[path].module}" for path in TABLED.split()}
    real = {
        path: name
        for path, name in {**finder.entered(), **rows}.items()
        if name.startswith("rushlight.")
    }
    folders = {path.rpartition(".")[0] for path in real} - {""}
    texts = {}
    for path, name in sorted(real.items()):
        if path.startswith("array_api"):  # loops make its names
            lines = ["def __getattr__(name: str) -> object: ..."]
        elif _static(module := importlib.import_module(name)):
            lines = [f"from {name} import *"]
        else:
            lines = _named(module)
        file = path.replace(".", "/") + ("/__init__.py" if path in folders else ".py")
        head = f'"""Types of rushlight.{path}. {NOTE}"""'
        texts[f"src/rushlight/{file}"] = "\n".join([head, "", *lines]) + "\n"
    return texts


def stubs() -> dict[str, str]:
    """The text of each stub, by its path."""
    import rushlight

    assert rushlight.__all__  # importing the package makes every declaration
    return {
        **modules(),
        "core/functional/declared.pyi": declared(),
        "core/nn/functional.pyi": network(),
        "core/special.pyi": listed("special"),
        "core/linalg.pyi": listed("linalg"),
        "core/fft.pyi": listed("fft"),
    }


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    for path, text in stubs().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")

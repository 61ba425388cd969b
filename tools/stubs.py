"""Write the type stubs of declared ops and composites.

``python tools/stubs.py`` writes them; a test compares them. Ops declare their public names when
their modules run, which a type checker cannot see. The stubs say which function has which name.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTE = "Written by tools/stubs.py (`make format`)."

Functions = Mapping[str, Callable[..., Any]]


def _wrapped(before: str, names: list[str], after: str) -> str:
    lines = textwrap.wrap(
        ", ".join(names), 96, break_long_words=False, break_on_hyphens=False
    )  # fmt: skip
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
    lines += ["from collections.abc import Callable as _Callable", "",
              "from rushlight.core.tensor.tensor import Tensor as _Tensor", ""]  # fmt: skip
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


def stubs() -> dict[str, str]:
    """The text of each stub, by its path."""
    import rushlight

    assert rushlight.__all__  # importing the package makes every declaration
    return {
        "core/functional/declared.pyi": declared(),
        "core/nn/functional.pyi": network(),
        "core/special.pyi": listed("special"),
        "core/linalg.pyi": listed("linalg"),
        "core/fft.pyi": listed("fft"),
    }


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    for path, text in stubs().items():
        (ROOT / path).write_text(text, encoding="utf-8")

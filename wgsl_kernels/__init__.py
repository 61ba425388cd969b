"""WGSL compute shaders for the webgpu device, and the loader that completes them.

A kernel is a plain .wgsl file that uses names without defining them. The loader puts the lines that
define them in front, and adds the definitions of library/*.wgsl that the text mentions.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources

if __name__ != "rushlight.wgsl_kernels":  # the folder was found under the repository root
    raise ImportError("import rushlight.wgsl_kernels, not wgsl_kernels")

_DEFINES = re.compile(r"^(?:@\S+ )*(?:fn|const|alias|struct|var<\S+>|override) +(\w+)", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*")


@cache
def _files() -> dict[str, str]:
    """The text of every shader, by its path without .wgsl."""
    top = resources.files(__name__)
    folders = {"": top, "library/": top / "library"}
    return {
        f"{start}{place.name.removesuffix('.wgsl')}": place.read_text(encoding="utf-8")
        for start, folder in folders.items()
        for place in folder.iterdir()
        if place.name.endswith(".wgsl")
    }


@cache
def digest() -> str:
    """A hash of all shaders. Measurements are valid only for the shaders that were measured."""
    return hashlib.sha256(repr(sorted(_files().items())).encode()).hexdigest()


def text(file: str) -> str:
    """The contents of FILE.wgsl, for a file that completes another one, such as map.wgsl."""
    return _files()[file]


@cache
def library() -> dict[str, str]:
    """The definitions of library/*.wgsl by name, each with the comment above it."""
    by_name: dict[str, str] = {}
    for place, source in sorted(_files().items()):
        for piece in re.split(r"\n{2,}", source) if place.startswith("library/") else ():
            for name in _DEFINES.findall(piece):
                by_name[name] = piece.strip()
    return by_name


def define(source: str) -> None:
    """Add the definitions of `source` to the library, for kernels that mention them.

    ValueError if the library already defines one of the names.
    """
    names = _DEFINES.findall(source)
    taken = sorted(set(names) & library().keys())
    if taken:
        raise ValueError(f"WGSL: the library defines {', '.join(taken)} already; rename it")
    library().update(dict.fromkeys(names, source.strip()))


@cache
def _mentions(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(library()[name])) & library().keys()


@cache
def compose(file: str, *lines: str) -> str:
    """The WGSL of kernel `file` (its name without .wgsl), completed by `lines`.

    Lines that begin with `enable` or `requires` go first, as WGSL asks.
    """
    first = [s for s in lines if s.startswith(("enable ", "requires "))]
    body = "\n".join([*(s for s in lines if s not in first), text(file)])
    defined = set(_DEFINES.findall(body))
    todo = sorted((set(_WORD.findall(body)) & library().keys()) - defined)
    used: set[str] = set()
    pieces: list[str] = []
    while todo:
        name = todo.pop()
        if name in used:
            continue
        used.add(name)
        if library()[name] not in pieces:
            pieces.append(library()[name])
        todo += _mentions(name) - used
    return "\n".join([*first, *pieces, body]) + "\n"

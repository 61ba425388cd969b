"""WGSL compute shaders for the webgpu device, and the loader that completes them.

A kernel is a plain .wgsl file that leaves names open: the loader puts the lines that define them
in front, and adds those functions of library/*.wgsl that the whole then mentions.
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
    """Every shader by its place without .wgsl; an installed wheel has them in one file."""
    top = resources.files(__name__)
    bundle = top / "kernels.txt"
    if bundle.is_file():
        pieces = bundle.read_text(encoding="utf-8").split("//// ")[1:]
        return dict(piece.split("\n", 1) for piece in pieces)
    folders = {"": top, "library/": top / "library"}
    return {
        f"{start}{place.name.removesuffix('.wgsl')}": place.read_text(encoding="utf-8")
        for start, folder in folders.items()
        for place in folder.iterdir()
        if place.name.endswith(".wgsl")
    }


@cache
def digest() -> str:
    """A hash of every shader: what was measured with others says nothing of these."""
    return hashlib.sha256(repr(sorted(_files().items())).encode()).hexdigest()


def text(file: str) -> str:
    """The contents of FILE.wgsl: for the files that complete another, as those of map.wgsl do."""
    return _files()[file]


@cache
def library() -> dict[str, str]:
    """Every definition of library/*.wgsl by its name, with the comment above it."""
    found: dict[str, str] = {}
    for place, source in sorted(_files().items()):
        for piece in re.split(r"\n{2,}", source) if place.startswith("library/") else ():
            for name in _DEFINES.findall(piece):
                found[name] = piece.strip()
    return found


def define(source: str) -> None:
    """Add the definitions of `source` to the library, for kernels that mention them.

    ValueError where one has a name that the library has already.
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
    own = set(_DEFINES.findall(body))
    todo = sorted((set(_WORD.findall(body)) & library().keys()) - own)
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

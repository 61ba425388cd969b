"""What a wheel leaves out, since every page that uses it downloads it: standard library only.

The build hook and the site's own packer load this file by its path; it is not part of the package.
The sources, whole, are in the checkout and in the sdist.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

_KERNELS = "rushlight/wgsl_kernels/"
# Where the shaders go, one after the other: many small files pack badly.
BUNDLE = _KERNELS + "kernels.txt"
# What runs ops on a device is not called by hand: its docstrings are for who reads the sources.
_INTERNAL = ("rushlight/core/backends/cpu/", "rushlight/core/backends/webgpu/")


def slim(members: dict[str, bytes]) -> dict[str, bytes]:
    """The members of a wheel, slimmer; every line of Python keeps its number."""
    slimmed: dict[str, bytes] = {}
    shaders: list[str] = []
    for name, content in members.items():
        if name.startswith(_KERNELS) and name.endswith(".wgsl"):
            place = name.removeprefix(_KERNELS).removesuffix(".wgsl")
            shaders.append(f"//// {place}\n{_script(content).decode()}")
        elif name.endswith(".py"):
            slimmed[name] = _python(content, keep_docstrings=not name.startswith(_INTERNAL))
        elif name.endswith(".js") and "/build/" not in name:  # those are pinned by hash
            slimmed[name] = _script(content)
        else:
            slimmed[name] = content
    if shaders:
        slimmed[BUNDLE] = "".join(sorted(shaders)).encode()
    return slimmed


def _script(content: bytes) -> bytes:
    """JavaScript or WGSL without its whole-line comments."""
    content = re.sub(rb"^ *//.*\n", b"", content, flags=re.M)
    return re.sub(rb"^ */\*\*(?:(?!\*/).)*\*/\n", b"", content, flags=re.M | re.S)


def _python(content: bytes, *, keep_docstrings: bool) -> bytes:
    """Python without its comments, and without docstrings where they are not the whole body."""
    source = content.decode()
    lines = source.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    if not keep_docstrings:
        for node in ast.walk(ast.parse(source)):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, kinds) and len(node.body) > 1 and ast.get_docstring(node):
                first = node.body[0]
                stop = first.end_lineno or first.lineno
                lines[first.lineno - 1 : stop] = [""] * (stop - first.lineno + 1)
    return "\n".join(lines).encode()

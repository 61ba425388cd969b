"""What a wheel leaves out, since every page that uses it downloads it.

The build hook and the site's own packer load this file by its path; it is not part of the package.
The sources, whole, are in the checkout and in the sdist.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

_KERNELS = "rushlight/wgsl_kernels/"
_SCRIPTS = "rushlight/web/"
_CORE = "rushlight/core/"
# Where shaders, scripts and the backends' modules go, one after the other: many small files pack
# badly.
_SHADERS_IN, _SCRIPTS_IN = _KERNELS + "kernels.txt", _SCRIPTS + "scripts.txt"
_MODULES_IN = _CORE + "modules.txt"
# What is not called by hand: its docstrings are for who reads the sources.
INTERNAL = tuple(
    f"rushlight/{place}"
    for place in (
        "core/backends/coming", "core/backends/cpu/", "core/backends/elementwise",
        "core/backends/folding", "core/backends/profiling", "core/backends/webgpu/", "core/bundle",
        "core/capture",
        "core/io/fetch/", "core/io/gguf_", "core/io/plan", "core/io/sandbox", "core/jsontext",
        "core/layout", "core/measure", "core/op.py", "core/ops/common", "core/plan", "core/pytree",
        "core/stand_ins", "core/storage", "models/batch", "models/gguf_names", "models/steps",
        "models/streaming", "models/turn",
        "site/", "web/download", "web/session", "wgsl_kernels/",
    )
)  # fmt: skip
# What nobody opens in an editor to see how to call it goes into one file.
BUNDLED = tuple(
    _CORE + place
    for place in (
        "backends/cpu/", "backends/webgpu/", "backends/coming", "backends/elementwise",
        "backends/folding", "backends/profiling", "capture", "cli/", "io/fetch/", "io/gguf_",
        "io/plan", "io/sandbox", "jsontext", "op.py", "plan", "pytree", "stand_ins", "storage",
    )
)  # fmt: skip

# The commands' annotations say what their options are.
TYPED = (f"{_CORE}cli/",)


def slim(members: dict[str, bytes]) -> dict[str, bytes]:
    """The members of a wheel, slimmer; every line of Python keeps its number."""
    slimmed: dict[str, bytes] = {}
    shaders: list[str] = []
    scripts: list[str] = []
    modules: list[str] = []
    for name, content in members.items():
        if name.startswith(_KERNELS) and name.endswith(".wgsl"):
            place = name.removeprefix(_KERNELS).removesuffix(".wgsl")
            shaders.append(f"//// {place}\n{_script(content).decode()}")
        elif name.endswith(".py"):
            bundled = name.startswith(BUNDLED)  # see core/bundle.py
            if bundled and not name.startswith(TYPED):
                content = _untyped(content)
            python = _python(content, keep_docstrings=not name.startswith(INTERNAL))
            if bundled:
                modules.append(f"\0{name.removeprefix(_CORE)}\n{python.decode()}")
            else:
                slimmed[name] = python
        elif name.startswith(_SCRIPTS) and name.endswith(".js") and "/build/" not in name:
            scripts.append(f"//// {name.removeprefix(_SCRIPTS)}\n{_minified(content)}\n")
        else:
            slimmed[name] = content
    bundles = ((_SHADERS_IN, shaders), (_SCRIPTS_IN, scripts), (_MODULES_IN, modules))
    for bundle, parts in bundles:
        if parts:
            slimmed[bundle] = "".join(sorted(parts)).encode()
    return slimmed


def _script(content: bytes) -> bytes:
    """JavaScript or WGSL without its whole-line comments."""
    content = re.sub(rb"^ *//.*\n", b"", content, flags=re.M)
    return re.sub(rb"^ */\*\*(?:(?!\*/).)*\*/\n", b"", content, flags=re.M | re.S)


def _minified(content: bytes) -> str:
    """JavaScript by tdewolff's minifier where it is installed; else without what is no code."""
    try:
        import minify
    except ImportError:
        return _flat(_script(content).decode()).rstrip("\n")
    small: str = minify.string("application/javascript", content.decode())
    return small


def _flat(script: str) -> str:
    """JavaScript without its indentation, but where a template literal goes on."""
    lines, literal = [], False
    for line in script.split("\n"):
        lines.append(line if literal else line.lstrip(" "))
        literal ^= bool(line.replace("\\`", "").count("`") % 2)
    return "\n".join(lines)


def _untyped(content: bytes) -> bytes:
    """Python whose functions say no types, but where an annotation has lines of its own."""
    lines = content.split(b"\n")
    cuts = []
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.arg) and (type_ := node.annotation):
            cuts.append((node.lineno, node.col_offset + len(node.arg.encode()), type_))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (type_ := node.returns):
            arrow = lines[type_.lineno - 1].rfind(b" ->", 0, type_.col_offset)
            if arrow >= 0:
                cuts.append((type_.lineno, arrow, type_))
    for row, start, type_ in sorted(cuts, key=lambda cut: cut[:2], reverse=True):
        if row == type_.end_lineno:
            line = lines[row - 1]
            lines[row - 1] = line[:start] + line[type_.end_col_offset :]
    return b"\n".join(lines)


def _python(content: bytes, *, keep_docstrings: bool) -> bytes:
    """Python without its comments, and without docstrings where they are not the whole body.

    A tab stands for four spaces at the start of a line.
    """
    source = content.decode()
    lines = source.split("\n")
    literal: set[int] = set()  # lines that begin within a string
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
        elif token.start[0] != token.end[0] and token.type not in (tokenize.NEWLINE, tokenize.NL):
            literal.update(range(token.start[0], token.end[0]))
    for i, line in enumerate(lines):
        if i not in literal:
            deep = (len(line) - len(line.lstrip(" "))) // 4
            lines[i] = "\t" * deep + line[4 * deep :]
    if not keep_docstrings:
        for node in ast.walk(ast.parse(source)):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, kinds) and len(node.body) > 1 and ast.get_docstring(node):
                first = node.body[0]
                stop = first.end_lineno or first.lineno
                lines[first.lineno - 1 : stop] = [""] * (stop - first.lineno + 1)
    return "\n".join(lines).encode()

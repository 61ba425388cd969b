"""The rules of the house: who may import whom, sizes, spellings, docstrings, names.

Each rule is a function from a file's path and text to a list of complaints. It is run over every
file of the tree, and over a bad sample that it must refuse.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rushlight
from rushlight.models.families import families

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("cli", "core", "models", "wgsl_kernels", "simd_kernels", "web", "site")
OTHERS = ("src/rushlight/__init__.py", "examples", "benchmarks", "tools", "tests", "hatch_build.py")
MADE = {"build", "node_modules", "__pycache__", "dist", ".venv"}

Rule = Callable[[str, str], list[str]]


def _files(*places: str) -> Iterator[str]:
    """Paths below `places`, relative to the root, without what a build made."""
    for place in places:
        top = ROOT / place
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            relative = path.relative_to(ROOT)
            if path.is_file() and not path.is_symlink() and MADE.isdisjoint(relative.parts):
                yield relative.as_posix()


PACKAGE = [*_files(*ROOMS), "src/rushlight/__init__.py"]
EVERYTHING = sorted({*_files(*ROOMS, *OTHERS)})


def _check(rule: Rule, paths: list[str], *suffixes: str) -> None:
    """Fail with what `rule` says of the files with these suffixes, or when there are none."""
    chosen = [p for p in paths if p.endswith(suffixes)]
    assert chosen, f"no {suffixes} file to check"
    wrong = [c for p in chosen for c in rule(p, (ROOT / p).read_text(encoding="utf-8"))]
    if wrong:
        pytest.fail("\n".join([str(rule.__doc__), *wrong]), pytrace=False)


# --- imports ------------------------------------------------------------------------------------

# From the bottom up. A module may import from its own layer and from those below it; the first
# pattern that fits a module gives its layer.
LAYERS: list[tuple[str, str]] = [
    ("rooms", r"rushlight\.(web|wgsl_kernels|simd_kernels)(\.build)?"),
    ("basis", r"rushlight\.core(\.basis(\..+)?)?"),
    ("backends", r"rushlight\.core\.backends(\..+)?"),
    ("storage", r"rushlight\.core\.(tensor|tensor\.storage|jit|jit\.capture)"),
    (
        "op",
        r"rushlight\.core\.tensor\."
        r"(op|autograd|grad_mode|hooks|interpreter_stack|meta|saving|sweep)",
    ),
    ("ops", r"rushlight\.core\.ops(\..+)?"),
    ("functional", r"rushlight\.core\.functional(\..+)?"),
    ("tensor", r"rushlight\.core\.tensor\..+"),
    (
        "library",
        r"rushlight\.(core\.(array_api|autograd|distributed|distributions|func|io|nn|optim|"
        r"settings|sparse|utils)|"
        r"web\.loading)(\..+)?",
    ),
    ("jit", r"rushlight\.core\.jit\..+"),
    ("tools", r"rushlight\.core\.(onnx|tools|training|torch_paths)(\..+)?"),
    ("models", r"rushlight\.models(\..+)?"),
    ("top", r"rushlight(\.cli|\.web|\.site)?(\..+)?"),
]
_RANK = {name: rank for rank, (name, _) in enumerate(LAYERS)}


FETCH = "rushlight.core.io.hub.fetch"


def _module(path: str) -> str:
    """The dotted name of a file of the package."""
    parts = Path(path.removeprefix("src/rushlight/")).with_suffix("").parts
    return ".".join(("rushlight", *(p for p in parts if p != "__init__")))


def _layer(module: str) -> str:
    return next(name for name, pattern in LAYERS if re.fullmatch(pattern, module))


def _exists(module: str) -> bool:
    """Whether a dotted name below rushlight is a module (rather than a name inside one)."""
    place = ROOT.joinpath(*module.split(".")[1:])
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def _is_type_checking(test: ast.expr) -> bool:
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def _imports(path: str, source: str) -> list[tuple[int, str]]:
    """(line, dotted module) of every import, those for type checkers only left out."""
    module, found = _module(path), []
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, *([base] if base else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                inner = base.split(".")[0] == "rushlight" and _exists(full)
                found.append((node.lineno, full if inner else base))
        todo += ast.iter_child_nodes(node)
    return sorted(set(found))


def import_rules(path: str, source: str) -> list[str]:
    """Imports point down; backends and families keep to themselves; one module maps files."""
    module, wrong = _module(path), []
    mine = _layer(module)
    parents: list[str] = []  # families that this one imports
    for line, target in _imports(path, source):

        def no(why: str, line: int = line, target: str = target) -> None:
            wrong.append(f"{path}:{line}: imports {target}: {why}")

        top = target.split(".")[0]
        if top in ("torch", "transformers", "scipy", "pytest"):
            no("not a dependency of the package")
        if target == "mmap" and module != "rushlight.core.io.weights.source":
            no("only io/source.py maps files")
        if module.startswith(FETCH) and top not in sys.stdlib_module_names:
            if not target.startswith(FETCH):
                no("the build loads this code by path: standard library only")
        if top != "rushlight" or target == module:
            continue
        theirs = _layer(target)
        if mine == "rooms":
            no("a kernel room and web/__init__.py import nothing of the package")
        elif _RANK[theirs] > _RANK[mine]:
            no(f"{mine} is below {theirs}")
        if mine == "backends" and theirs not in ("rooms", "basis", "backends"):
            no("a backend sees only the basis and the kernel rooms")
        theirs = _backend(target)
        if theirs and mine == "backends" and theirs != _backend(module):
            if module != REGISTRY and (module, target) not in BORROWED:
                no("a backend sees no other, and only the registry knows which there are")
        if {module, target} <= FAMILIES and target not in parents and module not in JOINED:
            parents.append(target)
            if len(parents) > 1:
                no(f"a model family imports one other at most, its parent, here {parents[0]}")
    return wrong


BACKENDS = "rushlight.core.backends."
REGISTRY = BACKENDS + "registry"  # the devices by name: it opens their backends
# What a backend has of another one, and why.
BORROWED = {
    # The library of C kernels encodes command lists: Python would take longer than the GPU.
    (BACKENDS + "webgpu.runtime.native_commands", BACKENDS + "cpu.simd"),
}


def _backend(module: str) -> str:
    """The backend that a module belongs to, cpu or webgpu; "" for what all of them share."""
    found = re.match(re.escape(BACKENDS) + r"(cpu|webgpu)(\.|$)", module)
    return found.group(1) if found else ""


# Files that compare a device's name, since no device is open yet, and why.
BEFORE_OPENING = {
    "cli/commands.py": "asking for adapters takes a second",
    "web/worker/session.py": "the visitor chose the processor: no adapter is asked for",
}


def backend_rules(path: str, source: str) -> list[str]:
    """Above the backends, none is imported by name, and no device's name decides anything.

    What a device can do is asked of the protocol (core/backends/protocol.py).
    """
    if path.startswith("core/backends/"):
        return []
    wrong = [
        f"{path}:{number}: names a backend: {found.group()}"
        for number, line in enumerate(source.splitlines(), 1)
        if (found := re.search(r"\bbackends(\.| import )\(?(cpu|webgpu)\b", line))
    ]
    for node in ast.walk(ast.parse(source)):
        compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if isinstance(node, ast.Match):
            compared = [
                c.pattern.value for c in node.cases if isinstance(c.pattern, ast.MatchValue)
            ]
        names = [c for part in compared for c in ast.walk(part) if isinstance(c, ast.Constant)]
        if path not in BEFORE_OPENING and any(c.value in ("cpu", "webgpu") for c in names):
            wrong.append(f"{path}:{getattr(node, 'lineno', 0)}: decides by a device's name")
    return wrong


def test_nothing_above_the_backends_names_one() -> None:
    _check(backend_rules, PACKAGE, ".py")


@pytest.mark.parametrize(
    "line",
    [
        "from rushlight.core.backends.webgpu.compiler import autotune",
        "from rushlight.core.backends import cpu",
        "if TYPE_CHECKING:\n    from rushlight.core.backends.cpu.simd import Record",
        'fast = device.type == "webgpu"',
        'fast = "cpu" != tensor.device.type',
        'fast = device.type in ("cpu", "meta")',
        'match device.type:\n    case "webgpu":\n        pass',
    ],
)
def test_a_room_that_names_a_backend_is_refused(line: str) -> None:
    assert backend_rules("core/jit/function.py", f'"""Sample."""\n{line}\n')
    assert backend_rules("core/backends/registry.py", f'"""Sample."""\n{line}\n') == []


def test_a_capability_and_a_default_are_allowed() -> None:
    for line in (
        "ahead = device.backend.asynchronous",
        'def f(device: str = "cpu"): pass',
        'x.to("webgpu")',
        'if device.type == "meta": pass',
        "from rushlight.core.backends import Device, device",
    ):
        assert backend_rules("models/generation/session.py", f'"""Sample."""\n{line}\n') == []


# What models/ holds besides these is shared among families.
FAMILIES = set(families().values())
# Models that join models of other families, whose files they import.
JOINED = {
    f"rushlight.models.families.vision.{name}"
    for name in ("altclip", "d_fine", "grounding_dino", "upernet")
}


def no_cycles(graph: dict[str, set[str]]) -> list[str]:
    """Complaints about modules that import each other at import time, in a circle."""
    wrong: list[str] = []
    state: dict[str, int] = {}

    def visit(module: str, trail: list[str]) -> None:
        state[module] = 1
        for target in sorted(graph.get(module, ())):
            if state.get(target) == 1:
                wrong.append(" -> ".join([*trail[trail.index(target) :], target]))
            elif target not in state:
                visit(target, [*trail, target])
        state[module] = 2

    for module in graph:
        if module not in state:
            visit(module, [module])
    return wrong


def _import_graph() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for path in (p for p in PACKAGE if p.endswith(".py")):
        source = (ROOT / path).read_text(encoding="utf-8")
        # Functions run later, when every module is there.
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                node.body = [] if isinstance(node.body, list) else ast.Constant(None)
        module = _module(path)
        found = _imports(path, ast.unparse(_filled(tree)))
        graph[module] = {t for _, t in found if t.split(".")[0] == "rushlight"} - {module}
    return graph


def _filled(tree: ast.Module) -> ast.Module:
    """`tree` with a `pass` in every function that was emptied."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.body:
            node.body = [ast.Pass()]
    return tree


def test_imports_point_down() -> None:
    _check(import_rules, PACKAGE, ".py")


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert no_cycles(_import_graph()) == []
    circle = {"a": {"b"}, "b": {"c"}, "c": {"b"}}
    assert no_cycles(circle) == ["b -> c -> b"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("core/basis/layout.py", "from rushlight.core.tensor.tensor import Tensor"),
        ("core/basis/layout.py", "from ..tensor import Tensor"),
        ("core/basis/layout.py", "def f():\n    import rushlight.core.tensor.tensor"),
        ("core/basis/errors.py", "import rushlight"),
        ("core/ops/binary.py", "from ..nn import Module"),
        ("core/ops/binary.py", "from rushlight.core import nn"),
        ("core/ops/binary.py", "from rushlight.core.functional.clamping import clamp"),
        ("core/functional/losses.py", "from rushlight.core.tensor.tensor import Tensor"),
        ("core/tensor/tensor.py", "from rushlight.core.io import load"),
        ("core/nn/module.py", "from rushlight.models import load"),
        ("core/io/weights/safetensors.py", "import mmap"),
        ("core/io/hub/fetch/http.py", "from rushlight.core.basis.errors import FetchError"),
        ("core/io/hub/fetch/http.py", "import numpy"),
        ("core/backends/cpu/simd.py", "from rushlight.core.tensor.op import Op"),
        ("core/backends/cpu/simd.py", "from rushlight.core.tensor.storage import Storage"),
        ("core/backends/webgpu/lowering/norm.py", "from ...cpu.reference import numpy_kernels"),
        (
            "core/backends/webgpu/lowering/norm.py",
            "from rushlight.core.backends.cpu.reference.numpy_kernels import f",
        ),
        ("core/backends/webgpu/emit.py", "from rushlight.core.backends.cpu import simd"),
        ("core/backends/cpu/simd.py", "from rushlight.core.backends.webgpu.emit import grid"),
        ("core/backends/profiling.py", "from rushlight.core.backends.cpu import simd"),
        ("core/backends/protocol.py", "def f():\n    from .cpu.backend import CpuBackend"),
        ("core/backends/cpu/executable.py", "from rushlight.core.jit.capture import Step"),
        ("core/jit/capture.py", "from rushlight.core.tensor.op import Op"),
        ("core/tensor/storage.py", "from rushlight.core.jit.function import jit"),
        ("core/nn/module.py", "from rushlight.core.jit.function import jit"),
        ("core/ops/binary.py", "from rushlight.core.functional import mean"),
        (
            "models/families/whisper.py",
            "from .encoder import bert\nfrom rushlight.models.families.text.llama import Config",
        ),
        ("models/families/whisper.py", "import torch"),
        ("models/families/encoder/bert.py", "from rushlight.cli import main"),
        ("core/tools/autotuning.py", "def f():\n    from rushlight.cli import main"),
        ("web/__init__.py", "from rushlight.core.basis.errors import RushlightError"),
        ("wgsl_kernels/__init__.py", "from rushlight.core.basis.dtype import DType"),
        ("simd_kernels/build.py", "import rushlight.core.basis.dtype"),
    ],
)
def test_an_import_that_points_up_is_refused(
    monkeypatch: pytest.MonkeyPatch, path: str, line: str
) -> None:
    families = {*FAMILIES, "rushlight.models.families.whisper"}
    monkeypatch.setattr(sys.modules[__name__], "FAMILIES", families)
    assert import_rules(path, f'"""Sample."""\n{line}\n')


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (
            "core/basis/layout.py",
            "if TYPE_CHECKING:\n    from rushlight.core.tensor.tensor import Tensor",
        ),
        ("core/tensor/tensor.py", "from rushlight.core import ops, backends"),
        ("core/backends/cpu/simd.py", "from rushlight.core.basis.dtype import DType"),
        ("core/backends/cpu/executable.py", "from rushlight.core.basis.graph import Graph"),
        ("core/backends/registry.py", "def f():\n    from .webgpu import open_backend"),
        ("core/jit/function.py", "from rushlight.core.nn.module import Module"),
        ("core/tensor/op.py", "from rushlight.core.jit import capture"),
        ("models/families/encoder/bert.py", "from rushlight.core import nn"),
        ("models/families/whisper.py", "from .encoder import bert"),  # its parent
        ("web/worker/session.py", "from rushlight import models"),
        ("core/io/weights/source.py", "import mmap"),
    ],
)
def test_an_import_that_points_down_is_allowed(path: str, line: str) -> None:
    assert import_rules(path, f'"""Sample."""\n{line}\n') == []


# --- composites ---------------------------------------------------------------------------------


def composite_rules(path: str, source: str) -> list[str]:
    """A composite is written in ops: it makes none, and no kernel."""
    made = {"Op", "elementwise", "rule"}
    return [
        f"{path}:{node.lineno}: {ast.unparse(node.func)}: an op belongs in core/ops/"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in made
    ]


def test_composites_make_no_ops() -> None:
    _check(composite_rules, [p for p in PACKAGE if p.startswith("core/functional/")], ".py")


@pytest.mark.parametrize("line", ["X = Op('x', infer=f)", "elementwise('x', 1, f, 'a')"])
def test_an_op_among_the_composites_is_refused(line: str) -> None:
    assert composite_rules("core/functional/a.py", line)


# --- sizes --------------------------------------------------------------------------------------

CODE = (".py", ".js", ".mjs", ".c", ".h", ".wgsl", ".sh")


def width_rules(path: str, source: str) -> list[str]:
    """At most 100 columns."""
    wrong = []
    for number, line in enumerate(source.splitlines(), 1):
        line = re.sub(r"\s+# (type: ignore|noqa)\b.*", "", line)  # a pragma cannot be wrapped
        if len(line) > 100:
            wrong.append(f"{path}:{number}: {len(line)} columns, 100 are allowed")
    return wrong


def test_lines_are_narrow() -> None:
    _check(width_rules, EVERYTHING, *CODE, ".css", ".html")


@pytest.mark.parametrize("path", ["core/a.py", "web/a.js", "tests/a.py"])
def test_a_wide_line_is_refused(path: str) -> None:
    assert width_rules(path, "x" * 101)
    assert width_rules(path, "x" * 100) == []


LONG = 600  # the lines from which on a file may be two


@pytest.mark.filterwarnings("default")
def test_long_files_are_named() -> None:
    """A warning: a long file is one where a reader has to look for things, not a wrong one."""
    for path in (p for p in EVERYTHING if p.endswith(CODE) and not p.startswith("tests/")):
        lines = (ROOT / path).read_text(encoding="utf-8").count("\n")
        if lines > LONG:
            warnings.warn(f"{path}: {lines} lines; is it one idea?", stacklevel=1)


# Budgets of what makes a function or a file hard to follow. Branches are ruff's (pyproject.toml).
ARGUMENTS, IMPORTS = 13, 33
# Signatures that are others', and whose.
THEIRS = {
    ("core/training/trainer.py", "Trainer"): "Lightning's",
    ("cli/finetune.py", ""): "the command's options",
    ("cli/draw.py", ""): "the command's options",
}


@functools.cache
def torch_names() -> frozenset[str]:
    """The functions, methods and classes of torch, whose arguments are torch's."""
    data = ROOT / "tests" / "core" / "data"
    said = json.loads((data / "torch_signatures.json").read_text(encoding="utf-8"))["signatures"]
    known = json.loads((data / "torch_names.json").read_text(encoding="utf-8"))
    return frozenset((*known, *(name for names in said.values() for name in names)))


def argument_rules(path: str, source: str) -> list[str]:
    """A function takes at most 13 arguments beside self, unless it is one of torch's."""
    wrong = []
    todo: list[tuple[str, ast.AST]] = [("", ast.parse(source))]
    while todo:
        owner, node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            count = len([a for a in every if a.arg not in ("self", "cls")])
            ours = (path, owner) not in THEIRS and torch_names().isdisjoint((owner, node.name))
            if count > ARGUMENTS and ours:
                wrong.append(
                    f"{path}:{node.lineno}: {node.name} takes {count} arguments, "
                    f"{ARGUMENTS} are allowed; some belong together"
                )
        inner = node.name if isinstance(node, ast.ClassDef) else owner
        todo += [(inner, child) for child in ast.iter_child_nodes(node)]
    return wrong


def import_counts(path: str, source: str) -> list[str]:
    """A file imports from at most 33 modules: it does one thing."""
    body = ast.parse(source).body
    count = len([node for node in body if isinstance(node, ast.Import | ast.ImportFrom)])
    return [f"{path}: {count} imports, {IMPORTS} are allowed"] if count > IMPORTS else []


def test_functions_take_few_arguments() -> None:
    _check(argument_rules, [p for p in EVERYTHING if not p.startswith("tests/")], ".py")


def test_files_import_few_modules() -> None:
    _check(import_counts, [p for p in PACKAGE if not p.startswith("src/")], ".py")


def test_what_is_over_a_budget_is_refused() -> None:
    many = ", ".join(f"a{i}" for i in range(ARGUMENTS + 1))
    assert argument_rules("core/a.py", f"class A:\n    def run(self, {many}): pass")
    assert argument_rules("core/a.py", f"def f({many[4:]}): pass") == []
    assert argument_rules("core/a.py", f"def conv_transpose2d({many}): pass") == []
    assert argument_rules("core/a.py", f"class LSTM:\n    def __init__(self, {many}): pass") == []
    source = "".join(f"import a{i}\n" for i in range(IMPORTS + 1))
    assert import_counts("core/a.py", source) and import_counts("core/a.py", source[10:]) == []


# --- what a file holds, what a function does ----------------------------------------------------


def first_line_rules(path: str, source: str) -> list[str]:
    """The first line of a file says what it holds."""
    first, _, rest = source.partition("\n")
    if path.endswith(".sh"):
        first = rest.partition("\n")[0]
    opening = {".py": r'"""[\w`]', ".sh": r"# \w"}.get(Path(path).suffix, r"(//|/\*\*?) ?\w")
    if not re.match(opening, first):
        return [f"{path}:1: the first line does not say what the file holds: {first!r}"]
    return []


def docstring_rules(path: str, source: str) -> list[str]:
    """Public functions and classes of a module, and public methods of its classes."""
    wrong = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name.startswith("_") or "overload" in map(ast.unparse, node.decorator_list):
            continue
        if ast.get_docstring(node) is None:
            wrong.append(f"{path}:{node.lineno}: {node.name} has no docstring")
    return wrong


def test_every_file_says_what_it_holds() -> None:
    paths = [p for p in EVERYTHING if not p.startswith("tests/")]
    _check(first_line_rules, paths, *CODE)
    _check(first_line_rules, EVERYTHING, ".py")


def test_public_functions_have_docstrings() -> None:
    _check(docstring_rules, PACKAGE, ".py")


def test_every_public_name_has_a_docstring() -> None:
    assert rushlight.__all__ == sorted(set(rushlight.__all__), key=rushlight.__all__.index)
    bare = []
    for name in rushlight.__all__:
        value = getattr(rushlight, name)
        if callable(value) and not (value.__doc__ or "").strip():
            bare.append(name)
    assert bare == []


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        (first_line_rules, "core/a.py", "import os\n"),
        (first_line_rules, "core/a.py", '\n"""Late."""\n'),
        (first_line_rules, "core/a.py", '"""\nLate."""\n'),
        (first_line_rules, "web/a.js", "export const x = 1;\n"),
        (first_line_rules, "wgsl_kernels/a.wgsl", "\n// late\n"),
        (first_line_rules, "tools/a.sh", "#!/bin/sh\nset -eu\n"),
        (docstring_rules, "core/a.py", "def f(): pass"),
        (docstring_rules, "core/a.py", "async def f(): pass"),
        (docstring_rules, "core/a.py", "class A: pass"),
    ],
)
def test_a_file_or_function_that_says_nothing_is_refused(
    rule: Rule, path: str, source: str
) -> None:
    assert rule(path, source)


# --- spellings ----------------------------------------------------------------------------------

PARAMETERS = {
    "axis": "dim",
    "axes": "dim",
    "dims_to_reduce": "dim",
    "keepdims": "keepdim",
    "keep_dims": "keepdim",
    "requires_gradient": "requires_grad",
    "require_grad": "requires_grad",
    "epsilon": "eps",
    "learning_rate": "lr",
    "in_channel": "in_channels",
    "out_channel": "out_channels",
    "negative_slope_": "negative_slope",
}
NAMES = {
    "astype": "to",
    "expand_dims": "unsqueeze",
    "matrix_multiply": "matmul",
    "reduce_sum": "sum",
    "reduce_mean": "mean",
    "power": "pow",
    "statedict": "state_dict",
    "ndims": "ndim",
    "f32": "float32",
    "f16": "float16",
    "i32": "int32",
}


def spelling_rules(path: str, source: str) -> list[str]:
    """Public functions, methods and their parameters are called as torch calls them."""
    wrong: list[str] = []

    def walk(body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                walk(node.body)
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("_") and node.name != "__init__":
                continue
            if node.name in NAMES:
                wrong.append(f"{path}:{node.lineno}: {node.name}: torch says {NAMES[node.name]}")
            arguments = node.args
            for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                if arg.arg in PARAMETERS:
                    wrong.append(
                        f"{path}:{node.lineno}: {node.name}({arg.arg}): torch says "
                        f"{PARAMETERS[arg.arg]}"
                    )

    walk(ast.parse(source).body)
    return wrong


def no_numpy_random(path: str, source: str) -> list[str]:
    """Random numbers are Philox's on every device: the package never asks NumPy for any."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        used = (
            (isinstance(node, ast.Attribute) and node.attr == "random")
            and (isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy"))
            or (isinstance(node, ast.Import) and any("numpy.random" in a.name for a in node.names))
            or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numpy.random"))
            or (
                isinstance(node, ast.ImportFrom)
                and node.module == "numpy"
                and any(a.name == "random" for a in node.names)
            )
            or (isinstance(node, ast.Import) and any(a.name == "random" for a in node.names))
        )
        if used:
            wrong.append(f"{path}:{getattr(node, 'lineno', 0)}: uses another random generator")
    return wrong


def test_names_are_spelled_as_in_torch() -> None:
    # The reference kernels speak NumPy's language, in which the word is axis, and so does what
    # the array API and einops ask for.
    others = ("core/backends/", "core/array_api/", "core/einops.py")
    paths = [p for p in PACKAGE if not p.startswith(others)]
    _check(spelling_rules, paths, ".py")
    assert not set(NAMES) & set(rushlight.__all__)


def test_the_package_never_uses_numpy_random() -> None:
    _check(no_numpy_random, PACKAGE, ".py")


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (spelling_rules, "def softmax(x, axis=-1): pass"),
        (spelling_rules, "def sum(x, *, keepdims=False): pass"),
        (spelling_rules, "class Tensor:\n    def astype(self, dtype): pass"),
        (spelling_rules, "class Norm:\n    def __init__(self, size, epsilon): pass"),
        (spelling_rules, "async def f(axes): pass"),
        (no_numpy_random, "import numpy as np\nx = np.random.default_rng(0)"),
        (no_numpy_random, "from numpy import random"),
        (no_numpy_random, "from numpy.random import default_rng"),
        (no_numpy_random, "import numpy.random as r"),
        (no_numpy_random, "def f():\n    import random"),
    ],
)
def test_a_foreign_spelling_or_generator_is_refused(rule: Rule, source: str) -> None:
    assert rule("core/a.py", source)


def test_private_names_are_free() -> None:
    assert spelling_rules("core/a.py", "def _reduce(x, axis): pass") == []
    assert no_numpy_random("core/a.py", "from rushlight.core import random") == []


# --- words --------------------------------------------------------------------------------------

WORDS = {
    r"(?<![\w.~-])/(?:root|work|opt|Users|home/\w+)/": "a path of one machine",
    r"https?://(?:10|172\.(?:1[6-9]|2\d|3[01])|192\.168)\.": "a private address",
    r"https?://[\w.-]+\.(?:internal|corp|lan|intra|local)\b": "a private host",
    r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b": "unfinished work; do it or file it",
    r"\bcat >|<{7} |>{7} ": "left over from an edit",
}


def word_rules(path: str, source: str) -> list[str]:
    """No machine's paths, no private hosts, nothing left undone."""
    wrong = []
    for number, line in enumerate(source.splitlines(), 1):
        for pattern, why in WORDS.items():
            if match := re.search(pattern, line):
                wrong.append(f"{path}:{number}: {match.group()!r}: {why}")
    return wrong


def test_no_file_names_a_machine_or_is_left_undone() -> None:
    texts = (*CODE, ".md", ".toml", ".json", ".html", ".css", ".ts", "Makefile", ".ci/run")
    top = [p.name for p in ROOT.iterdir() if p.is_file()]
    _check(word_rules, [*EVERYTHING, *top, ".ci/run"], *texts)


@pytest.mark.parametrize(
    "line",
    [
        "see /" + "root/x",
        "open('/" + "work/data')",
        "PATH=/" + "home/me/bin",
        "http://" + "10.1.2.3/simple",
        "https://mirror" + ".internal/pypi",
        "# TO" + "DO: finish",
        "<" * 7 + " HEAD",
    ],
)
def test_a_machine_or_a_loose_end_is_refused(line: str) -> None:
    assert word_rules("core/a.py", line)


def test_ordinary_paths_are_allowed() -> None:
    for line in ("/usr/bin/chromium", "https://pypi.org/simple", "./work/x", "~/.cache/rushlight"):
        assert word_rules("core/a.py", line) == []


# --- each module once ---------------------------------------------------------------------------


def _run(code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter with both src and the root on its path."""
    path = f"import sys; sys.path[:0] = [{str(ROOT / 'src')!r}, {str(ROOT)!r}]\n"
    return subprocess.run(
        [sys.executable, "-c", path + code], capture_output=True, text=True, timeout=300
    )


def test_each_module_exists_once() -> None:
    done = _run(
        "import pkgutil, os, rushlight\n"
        "for m in pkgutil.walk_packages(rushlight.__path__, 'rushlight.'):\n"
        "    if not m.name.endswith('__main__'): __import__(m.name)\n"
        "seen = {}\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    file = getattr(module, '__file__', None)\n"
        "    if name.split('.')[0] == 'rushlight' and module.__name__ == name:\n"
        "        assert file, name\n"
        "        other = seen.setdefault(os.path.realpath(file), name)\n"
        "        assert other == name, (other, name)\n"
        "print(len(seen))\n"
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= len({*ROOMS})


@pytest.mark.parametrize("room", [r for r in ROOMS if r != "site"])
def test_a_room_is_refused_under_its_bare_name(room: str) -> None:
    for first in ("", f"import rushlight.{room}; "):
        done = _run(f"{first}import {room}")
        assert done.returncode == 1
        assert f"import rushlight.{room}, not {room}" in done.stderr


def test_the_room_site_is_refused_under_its_bare_name() -> None:
    # `import site` always gives Python's own, which is frozen in; so by path.
    spec = importlib.util.spec_from_file_location("site", ROOT / "site" / "__init__.py")
    assert spec is not None and spec.loader is not None
    with pytest.raises(ImportError, match=r"import rushlight\.site, not site"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_the_rooms_are_links() -> None:
    for room in ROOMS:
        link = ROOT / "src" / "rushlight" / room
        if link.is_symlink():
            assert link.readlink() == Path(f"../../{room}")
        module = importlib.import_module(f"rushlight.{room}")
        assert Path(str(module.__file__)).resolve().parent == ROOT / room

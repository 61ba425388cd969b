"""The wheel: what is in it, that the sdist gives the same one, that it runs with NumPy alone."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

import rushlight

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("packaging")]

ROOMS = ("core", "models", "wgsl_kernels", "simd_kernels", "web", "site")


def _members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


BUNDLE = "rushlight/core/modules.txt"


def _python_files(wheel: Path) -> dict[str, bytes]:
    """The modules of a wheel by their place, those in the bundle too."""
    members = _members(wheel)
    found = {name: content for name, content in members.items() if name.endswith(".py")}
    for piece in members[BUNDLE].split(b"\0")[1:]:
        place, _, content = piece.partition(b"\n")
        found[f"rushlight/core/{place.decode()}"] = content
    return found


def _tracked(root: Path, *places: str) -> list[str]:
    """The files that git knows below `places`."""
    done = subprocess.run(
        ["git", "-C", str(root), "ls-files", *places], check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def _known(root: Path, *places: str) -> list[str]:
    """The files below `places` that git knows or would take."""
    return _tracked(root, "--cached", "--others", "--exclude-standard", *places)


def test_the_sdist_gives_the_same_wheel(built: Any) -> None:
    tree, again = _members(built.wheel), _members(built.again)
    assert sorted(tree) == sorted(again)
    assert [name for name in tree if tree[name] != again[name]] == []


# The C kernels for the tab, which loads the better one that it can run.
MODULES = {f"rushlight/simd_kernels/build/kernels.{kind}.wasm" for kind in ("simd128", "relaxed")}


def test_the_wheel_is_small_and_pure(built: Any) -> None:
    assert built.wheel.name == f"rushlight-{rushlight.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(built.wheel) as archive:
        modules = {i.filename: i for i in archive.infolist() if i.filename in MODULES}
    assert modules.keys() == MODULES
    assert all(i.file_size < 150_000 for i in modules.values())
    packed = sum(i.compress_size for i in modules.values())
    assert built.wheel.stat().st_size - packed < 400_000


def _platform_wheel(root: Path, out: Path, target: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", out, root],
        env={**os.environ, "RUSHLIGHT_WHEEL": target}, capture_output=True, text=True,
    )  # fmt: skip


def test_a_platform_wheel_brings_its_library(root: Path, tmp_path: Path) -> None:
    done = _platform_wheel(root, tmp_path, "here")
    assert done.returncode == 0, done.stderr
    (made,) = tmp_path.iterdir()
    assert "-py3-none-any" not in made.name and platform.machine().lower() in made.name
    members = _members(made)
    (library,) = {n for n in members if n.endswith((".so", ".dylib", ".dll"))}
    assert library.startswith("rushlight/simd_kernels/build/kernels.") and members.keys() >= MODULES
    zipfile.ZipFile(made).extractall(tmp_path / "installed")
    found = subprocess.run(
        [sys.executable, "-c", "import rushlight as rl; print(rl.device('cpu').info['kernels'])"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "RUSHLIGHT_KERNELS": ""},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith("C, ")


def test_a_wheel_for_no_platform_is_refused(root: Path, tmp_path: Path) -> None:
    done = _platform_wheel(root, tmp_path, "linux-pdp11")
    assert done.returncode != 0
    assert "RUSHLIGHT_WHEEL=linux-pdp11: there is no such platform" in done.stdout + done.stderr


def test_the_wheel_holds_every_source_file(built: Any, root: Path) -> None:
    members = set(_members(built.wheel))
    sources = {f"rushlight/{name}" for name in _known(root, *ROOMS)}
    assert len(sources) > 150
    # Nothing is left out but types that only the check of the sources reads, and the demo pages;
    # the shaders are in one file, the scripts in another, the inner modules of core in a third.
    types = {"rushlight/web/comlink.d.ts", "rushlight/web/types.d.ts"}
    site = {name for name in sources if name.startswith("rushlight/site/")}
    pages = {name for name in site if not name.endswith(".py")}
    assert "rushlight/site/index.html" in pages and types <= sources
    shaders = {name for name in sources if name.endswith(".wgsl")}
    scripts = {name for name in sources if name.startswith("rushlight/web/") and name[-3:] == ".js"}
    kernels = {
        name for name in sources
        if name.startswith("rushlight/simd_kernels/") and not name.endswith("/__init__.py")
    }  # fmt: skip
    bundled = runpy.run_path(str(root / "tools" / "slim.py"))["BUNDLED"]
    modules = {name for name in sources if name.startswith(bundled) and name.endswith(".py")}
    assert len(modules) > 60 and modules <= set(_python_files(built.wheel))
    assert sources - members == types | pages | shaders | scripts | kernels | modules
    assert {"rushlight/__init__.py", "rushlight/py.typed"} <= members
    # What runs in a page, the types for its authors, and what builds a site of it.
    assert "rushlight/web/client.d.ts" in members
    assert "rushlight/site/build.py" in members
    # And nothing more than sources and what the build fetched.
    extra = {name for name in members - sources if not name.startswith("rushlight/web/build/")}
    package = {
        "rushlight/__init__.py", "rushlight/py.typed", "rushlight/wgsl_kernels/kernels.txt",
        "rushlight/web/scripts.txt", BUNDLE, *MODULES,
    }  # fmt: skip
    assert {name for name in extra if ".dist-info/" not in name} == package


def test_the_wheel_holds_the_pinned_javascript_with_its_licences(built: Any, root: Path) -> None:
    members = {name for name in _members(built.wheel) if name.startswith("rushlight/web/build/")}
    assets = tomllib.loads((root / "web" / "assets.toml").read_text(encoding="utf-8"))
    wanted = {
        f"rushlight/web/build/{member['to']}"
        for asset in assets.values()
        if asset["into"] == "wheel"
        for member in asset["members"]
    }
    assert members == wanted
    for asset in assets.values():
        for member in asset["members"] if asset["into"] == "wheel" else ():
            content = _members(built.wheel)[f"rushlight/web/build/{member['to']}"]
            assert hashlib.sha256(content).hexdigest() == member["sha256"], member["to"]
    scripts = [name for name in members if name.endswith(".js")]
    assert len(scripts) >= 2
    assert all(name.removesuffix(".js") + ".LICENSE" in members for name in scripts)


def test_its_scripts_do_what_the_sources_do(
    built: Any, root: Path, node_compare: Any, node_exports: Any
) -> None:
    """The minifier leaves what they export; without it, comments and indentation go, no more."""
    text = _members(built.wheel)["rushlight/web/scripts.txt"].decode()
    scripts = dict(piece.split("\n", 1) for piece in re.split("^//// ", text, flags=re.M)[1:])
    sources = {p.name: p.read_text(encoding="utf-8") for p in (root / "web").glob("*.js")}
    assert scripts.keys() == sources.keys()
    assert all(len(scripts[name]) < 0.95 * len(source) for name, source in sources.items())
    assert node_exports(scripts) == node_exports(sources)
    slim = runpy.run_path(str(root / "tools" / "slim.py"))
    plain = {
        name: slim["_flat"](slim["_script"](s.encode()).decode()) for name, s in sources.items()
    }
    assert node_compare({name: (plain[name], source) for name, source in sources.items()}) == []
    assert node_compare({"a": ("let a=1", "let a = 2")}) == ["a"]


def _shape(source: bytes, *, docstrings: bool, types: bool) -> str:
    """The syntax tree of a module with its line numbers.

    With or without its docstrings, and the types of its functions.
    Where the source has four spaces at the start of a line, the wheel has a tab: columns differ.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if not docstrings and isinstance(node, kinds) and len(node.body) > 1:
            if ast.get_docstring(node):
                del node.body[0]
        if not types and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if not types and isinstance(node, ast.arg):
            node.annotation, node.end_lineno = None, None
    for node in ast.walk(tree):
        for name in ("col_offset", "end_col_offset"):
            if hasattr(node, name):
                setattr(node, name, 0)
    return ast.dump(tree, include_attributes=True)


def test_its_python_is_the_sources_python(built: Any, root: Path) -> None:
    """Comments are gone, of inner modules docstrings and types; every line keeps its number."""
    smaller = 0
    rules = runpy.run_path(str(root / "tools" / "slim.py"))
    internal, bundled, typed = (rules[name] for name in ("INTERNAL", "BUNDLED", "TYPED"))
    assert len(internal) > 10 and not any(name.endswith("core/tensor.py") for name in internal)
    for name, content in _python_files(built.wheel).items():
        place = "src/rushlight/__init__.py" if name == "rushlight/__init__.py" else name[10:]
        source = (root / place).read_bytes()
        docstrings = not name.startswith(internal)
        types = not name.startswith(bundled) or name.startswith(typed)
        options = {"docstrings": docstrings, "types": types}
        got, wanted = (_shape(x, **options) for x in (content, source))
        assert got == wanted, name
        assert content.count(b"\n") == source.count(b"\n"), name
        smaller += len(content) < len(source)
    assert smaller > 50


def test_its_shaders_are_the_sources_shaders(built: Any, root: Path) -> None:
    members = _members(built.wheel)
    text = members["rushlight/wgsl_kernels/kernels.txt"].decode()
    found = dict(piece.split("\n", 1) for piece in text.split("//// ")[1:])
    folder = root / "wgsl_kernels"
    sources = {
        path.relative_to(folder).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.wgsl")
    }
    assert found.keys() == sources.keys()
    for name, source in sources.items():
        lines = [x for x in source.splitlines() if not x.lstrip().startswith("//")]
        assert found[name].splitlines() == lines, name


def test_only_the_named_sections_of_a_bundle_are_kept(root: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("of_hatch_build", root / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    bundle = tmp_path / "bundle.js"
    parts = ["// src/a.ts\nvar a = 1;\n", "// src/b.ts\nvar b;\n", "// src/c.ts\nvar c;\n"]
    asset = {"package": "bundle", "version": "1.0", "licence": "MIT"}
    member = {"sections": ["src/c.ts", "src/a.ts"], "tail": "export { a };"}
    bundle.write_text("".join(["var x;\n", *parts, "export {\n  a,\n  b\n};\n"]))
    build.keep_sections(bundle, asset, member)
    head = "// Parts of bundle 1.0 (MIT), and an export.\n\n"
    assert bundle.read_text() == head + parts[2] + parts[0] + "export { a };\n"
    with pytest.raises(ValueError, match=r"bundle 1\.0: no section src/b\.ts"):
        build.keep_sections(bundle, asset, {**member, "sections": ["src/b.ts"]})


def test_the_wheel_holds_nothing_else(built: Any) -> None:
    for name in _members(built.wheel):
        top, _, rest = name.partition("/")
        assert top in ("rushlight", f"rushlight-{rushlight.__version__}.dist-info"), name
        assert not rest.startswith(("tests/", "benchmarks/", "src/")), name
        assert "__pycache__" not in name and not name.endswith((".pyc", ".so", ".map")), name


def test_the_metadata_asks_the_tab_for_numpy_only(built: Any) -> None:
    (text,) = (v for k, v in _members(built.wheel).items() if k.endswith("/METADATA"))
    metadata = Parser().parsestr(text.decode())
    assert metadata["Requires-Python"] == ">=3.11"
    for requirement in metadata.get_all("Requires-Dist", []):
        name, _, marker = requirement.partition(";")
        assert name.startswith("numpy") or "emscripten" in marker or "extra ==" in marker
    assert metadata["License-Expression"] == "MIT"


def test_the_sdist_can_be_tested_and_built_offline(built: Any, root: Path) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = set(_tracked(root))
    links = {f"src/rushlight/{room}" for room in ROOMS}  # an sdist does without
    assert links <= tracked
    left_out = {name for name in tracked - links - names if not name.startswith(("docs/", "."))}
    assert left_out == set()
    assert any(name.startswith("web/build/") for name in names)
    assert not any(name.startswith(tuple(links)) for name in names)


@pytest.fixture(scope="module")
def empty(built: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that holds the wheel and NumPy, and nothing else."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False, symlinks=True)
    packages = next(home.glob("lib/python*/site-packages"))
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(home), "install", "-q", "--no-deps"]
        + ["--no-index", str(built.wheel)],
        check=True,
    )
    # NumPy comes from this environment by links, so that nothing is downloaded.
    found = importlib.util.find_spec("numpy")
    assert found is not None and found.origin is not None
    for path in Path(found.origin).parents[1].glob("numpy*"):
        (packages / path.name).symlink_to(path)
    return home / "bin" / "python"


_BUNDLED = """
import importlib, inspect, json, traceback
from rushlight.core import backends
from rushlight.core.backends.cpu import numpy_kernels
from rushlight.core.backends.webgpu import plans, pool
try:
    pool.size_class(None)
except TypeError as error:
    (*_, frame) = traceback.extract_tb(error.__traceback__)
try:
    importlib.import_module("rushlight.core.backends.webgpu.nothing")
except ModuleNotFoundError as error:
    missing = error.name
print(json.dumps([pool.__file__, pool.__spec__.cached, plans.__path__, frame.line, missing,
    inspect.getsource(pool.size_class)]))
"""


def test_modules_in_the_bundle_are_like_others(empty: Path, tmp_path: Path) -> None:
    """They have a place, a source for tracebacks, and bytecode that the next start takes."""
    env = {"PYTHONDONTWRITEBYTECODE": ""}
    file, cached, path, line, missing, source = _python(empty, _BUNDLED, tmp_path, **env)
    packages = next(empty.parents[1].glob("lib/python*/site-packages"))
    home = packages / "rushlight" / "core"
    assert file == str(home / "backends" / "webgpu" / "pool.py") and path == [
        str(home / "backends" / "webgpu" / "plans")
    ]
    assert line == "if nbytes <= _STEP:" and source.startswith("def size_class(nbytes)")
    assert missing == "rushlight.core.backends.webgpu.nothing"
    assert Path(cached).is_file()
    # Bytecode of another bundle is not taken, that of this one is.
    written = Path(cached).read_bytes()
    Path(cached).write_bytes(written.replace(b"_STEP", b"_STOP"))
    assert "_STOP" in _python(empty, _CACHED, tmp_path, **env)
    os.utime(home / "modules.txt", (1_700_000_000, 1_700_000_000))
    assert "_STEP" in _python(empty, _CACHED, tmp_path, **env)


_CACHED = """
import json
from rushlight.core.backends.webgpu import pool
print(json.dumps(pool.size_class.__code__.co_names))
"""


def _python(python: Path, code: str, cwd: Path, **env: str) -> Any:
    """What `code` prints as JSON, run away from the checkout and its environment."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_"))}
    done = subprocess.run(
        [python, "-W", "error", "-c", code],
        cwd=cwd,
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_wheel_runs_with_numpy_alone(empty: Path, root: Path, tmp_path: Path) -> None:
    got = _python(
        empty,
        "import json, sys, rushlight as rl\n"
        "a = rl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)\n"
        "(a @ a).sum().backward()\n"
        "from rushlight import models, nn, optim\n"
        "print(json.dumps([(a @ a).tolist(), a.grad.tolist(), sys.path, rl.__file__,\n"
        "    sorted(m for m in sys.modules if '.' not in m)]))",
        tmp_path,
    )
    product, gradient, path, file, modules = got
    assert product == [[7, 10], [15, 22]]
    assert gradient == [[7, 11], [9, 13]]
    assert not [p for p in [*path, file] if Path(p).is_relative_to(root) and ".venv" not in p]
    assert "rushlight" in modules
    assert not {"typer", "rich", "tokenizers", "safetensors", "huggingface_hub"} & set(modules)


def test_the_command_runs_from_the_wheel(empty: Path, tmp_path: Path) -> None:
    # The other dependencies, from this environment: a .pth line adds its packages, but does not
    # read its .pth files, so an editable Rushlight there stays out of sight.
    others = Path(str(importlib.metadata.distribution("typer").locate_file("")))
    packages = next(empty.parents[1].glob("lib/python*/site-packages"))
    (packages / "others.pth").write_text(f"{others}\n", encoding="utf-8")
    try:
        done = subprocess.run(
            [empty.with_name("rushlight"), "info"],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        (packages / "others.pth").unlink()
    assert done.returncode == 0, done.stderr
    assert rushlight.__version__ in done.stdout

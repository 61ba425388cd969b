"""The wheel: what is in it, that the sdist gives the same one, that it runs with NumPy alone."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
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

ROOMS = ("cli", "core", "models", "wgsl_kernels", "simd_kernels", "web", "site")


def _members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


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
    assert built.wheel.name == f"rushlight-{rushlight.version.rushlight}-py3-none-any.whl"
    with zipfile.ZipFile(built.wheel) as archive:
        modules = {i.filename: i for i in archive.infolist() if i.filename in MODULES}
    assert modules.keys() == MODULES
    # The page loads one of them: kernels are added where a measurement asks for one.
    assert all(i.file_size < 200_000 for i in modules.values())
    # A family is about 1 KB of it, the modules of the tab 110 KB. It grows with families and ops.
    assert built.wheel.stat().st_size < 5_000_000


def test_the_wheel_holds_every_source_file(built: Any, root: Path) -> None:
    """As it is, but for what no tab and no installed package needs; pyproject.toml names that."""
    members = _members(built.wheel)
    sources = {f"rushlight/{name}" for name in _known(root, *ROOMS)}
    assert len(sources) > 150
    site = {name for name in sources if name.startswith("rushlight/site/")}
    theirs = ("rushlight/site/pages/", "rushlight/site/builder/datasets.py")
    pages = {name for name in site if not name.endswith(".py") or name.startswith(theirs)}
    assert {"rushlight/site/pages/home/index.html", "rushlight/site/builder/sw.js"} <= pages
    types = {"rushlight/web/page/comlink.d.ts", "rushlight/web/types.d.ts"}
    assert types <= sources
    kernels = {
        name
        for name in sources
        if name.startswith("rushlight/simd_kernels/") and not name.endswith("/__init__.py")
    }
    rooms = ("core/jit", "core/backends/cpu", "core/backends/webgpu", "wgsl_kernels", "web")
    readers = {f"rushlight/{room}/README.md" for room in rooms}
    assert readers <= sources
    assert sources - members.keys() == types | pages | kernels | readers
    # What runs in a page, the types for its authors, and what builds a site of it.
    assert "rushlight/web/page/client.d.ts" in members
    assert "rushlight/site/builder/build.py" in members
    for name in sources & members.keys():
        assert members[name] == (root / name.removeprefix("rushlight/")).read_bytes(), name
    # And nothing more than sources and what the build fetched or compiled.
    links = {f"src/rushlight/{room}" for room in ROOMS}
    package = {n.removeprefix("src/") for n in _known(root, "src/rushlight") if n not in links}
    assert {"rushlight/__init__.py", "rushlight/py.typed"} < package
    for name in package:
        assert members[name] == (root / "src" / name).read_bytes(), name
    extra = {name for name in members.keys() - sources if ".dist-info/" not in name}
    assert {name for name in extra if not name.startswith("rushlight/web/build/")} == (
        package | MODULES
    )


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
    assert scripts
    assert all(name.removesuffix(".js") + ".LICENSE" in members for name in scripts)


def test_the_build_hook_needs_nothing_but_python(root: Path) -> None:
    """An isolated build has hatchling, but neither this package nor what it depends on."""
    code = (
        "import runpy; hook = runpy.run_path('hatch_build.py', run_name='__main__')\n"
        "print(hook['_load'](hook['ROOT'], 'core/io/hub/fetch').npm_members.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("npm_members\n")


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
        assert top in ("rushlight", f"rushlight-{rushlight.version.rushlight}.dist-info"), name
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
    spared = ("docs/screenshots/", ".")
    left_out = {name for name in tracked - links - names if not name.startswith(spared)}
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


PROGRAM = """
import rushlight as rl
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight import linalg, optim
from rushlight.autograd import Function
from rushlight.distributions import Normal
from rushlight.func import grad
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.optim.lr_scheduler import StepLR
from rushlight.utils.data import DataLoader, TensorDataset
class Net(nn.Module):
    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return F.relu(linalg.norm(x)) + Normal(x, x).rsample()
rates = StepLR(optim.SGD(Net().parameters(), lr=0.1), 2)
same: rl.nn.ReLU6 = nn.ReLU6()
wrong: int = F.relu(rl.ones(2))
"""


def test_a_type_checker_finds_the_modules(empty: Path, tmp_path: Path) -> None:
    """The names that `import rushlight` enters; a wrong line is noted, so they are not Any."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", empty, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")},
    )
    wrong, count = done.stdout.splitlines()
    assert "program.py:17: error: Incompatible types in assignment" in wrong, done.stdout
    assert "Found 1 error in 1 file" in count


def test_the_modules_are_those_of_the_rooms(empty: Path, tmp_path: Path) -> None:
    code = (
        "import json, pickle, sys\n"
        "import rushlight.nn.functional as F, rushlight as rl, rushlight.core.nn as nn\n"
        "import rushlight.utils.data, rushlight.optim.lr_scheduler\n"
        "modules = {id(m): m for m in sys.modules.values()}.values()\n"
        "files = [getattr(m, '__file__', None) or '' for m in modules]\n"
        "files = [f for f in files if 'rushlight' in f]\n"
        "layer = pickle.loads(pickle.dumps(rl.nn.Linear(2, 3)))\n"
        "print(json.dumps([rl.nn is nn, F is nn.functional, len(files) - len(set(files)),\n"
        "    [f for f in files if 'rushlight' + '/nn' in f], type(layer) is nn.Linear]))"
    )
    assert _python(empty, code, tmp_path) == [True, True, 0, [], True]


def _packed_by(python: Path | str, out: Path, **env: str) -> dict[str, bytes]:
    """The files of the wheel that the site builder of a package packs, without its metadata."""
    code = (
        "import json, pathlib, rushlight.site.builder.wheel as w\n"
        f"print(json.dumps(str(w.pack(pathlib.Path({str(out)!r})))))"
    )
    made = Path(_python(Path(python), code, out, **env))
    return {name: text for name, text in _members(made).items() if ".dist-info/" not in name}


def test_a_site_gets_the_files_of_the_wheel(
    built: Any, empty: Path, root: Path, tmp_path: Path
) -> None:
    """Packed from a checkout by the table for hatchling, from an installed package by its list."""
    wanted = {n: text for n, text in _members(built.wheel).items() if ".dist-info/" not in n}
    assert _packed_by(sys.executable, tmp_path, PYTHONPATH=str(root / "src")) == wanted
    assert _packed_by(empty, tmp_path) == wanted
    # Bytecode and the library of a platform wheel are left out.
    packages = next(empty.parents[1].glob("lib/python*/site-packages"))
    record = next(packages.glob("rushlight-*.dist-info/RECORD"))
    library = packages / "rushlight" / "simd_kernels" / "build" / "kernels.so"
    before = record.read_text(encoding="utf-8")
    library.write_bytes(b"")
    record.write_text(f"{before}rushlight/simd_kernels/build/kernels.so,,\n", encoding="utf-8")
    try:
        assert any(name.endswith(".pyc") for name in before.split(","))
        assert _packed_by(empty, tmp_path, RUSHLIGHT_KERNELS="numpy") == wanted
    finally:
        library.unlink()
        record.write_text(before, encoding="utf-8")


def _python(python: Path, code: str, cwd: Path, **env: str) -> Any:
    """What `code` prints as JSON, run away from the checkout and its environment."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_"))}
    done = subprocess.run(
        [python, "-W", "error", "-c", code],
        cwd=cwd,
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=300,
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
            timeout=300,
        )
    finally:
        (packages / "others.pth").unlink()
    assert done.returncode == 0, done.stderr
    assert rushlight.version.rushlight in done.stdout

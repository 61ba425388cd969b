"""How a run is arranged: what is long begins first, unchanged subjects are left out."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rushlight.site.builder import wheel

pytestmark = pytest.mark.native
HERE = Path(__file__).parent


@pytest.fixture
def load() -> Any:
    """A function that gives a new copy of a module of this folder."""

    def module(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"fresh_{name}", HERE / f"{name}.py")
        assert spec is not None and spec.loader is not None
        fresh = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(fresh)
        return fresh

    return module


class _Item:
    """A test as pytest gives it: a path, a group, and marks that are added."""

    def __init__(self, path: str, group: str = "") -> None:
        self.path, self.marks = HERE / path, [pytest.mark.xdist_group(group)] if group else []

    def iter_markers(self, name: str) -> Any:
        """The marks of a name."""
        return (mark.mark for mark in self.marks if mark.mark.name == name)

    def add_marker(self, mark: Any) -> None:
        """Keep a mark."""
        self.marks.append(mark)

    @property
    def groups(self) -> list[str]:
        """The groups that its marks name."""
        return [str(mark.args[0]) for mark in self.iter_markers("xdist_group")]


def test_long_groups_come_first_and_short_files_stay_together(load: Any, tmp_path: Path) -> None:
    order = load("order")
    order.FILE = tmp_path / "durations.json"
    order.FILE.write_text(json.dumps({"pages": 90, "core/b.py": 30, "core/c.py": 5}))
    items = [
        _Item("core/a.py"),
        _Item("core/b.py"),
        _Item("core/c.py"),
        _Item("core/b.py"),
        _Item("site/d.py", "pages"),
        _Item("core/a.py"),
    ]
    order.arrange(items)
    names = [item.path.name for item in items]
    assert names == ["d.py", "b.py", "b.py", "c.py", "a.py", "a.py"]
    assert [item.groups for item in items] == [
        ["pages"],
        [],
        [],
        ["core/c.py"],
        ["core/a.py"],
        ["core/a.py"],
    ]


def test_the_stopwatch_writes_seconds_by_group(load: Any, tmp_path: Path) -> None:
    order = load("order")
    order.FILE = tmp_path / "durations.json"
    watch = order.Stopwatch()
    for name, seconds in (
        ("tests/core/a.py::x@core/a.py", 1.4),
        ("tests/core/a.py::y@core/a.py", 2.4),
        ("tests/core/b.py::x", 0.2),
        ("tests/site/d.py::x@pages", 9),
    ):
        watch.pytest_runtest_logreport(
            pytest.TestReport(name, ("", 0, ""), {}, "passed", None, "call", duration=seconds)
        )
    watch.pytest_sessionfinish()
    assert json.loads(order.FILE.read_text()) == {"pages": 9, "core/a.py": 4}


def test_the_stopwatch_keeps_what_did_not_run(load: Any, tmp_path: Path) -> None:
    order = load("order")
    order.FILE = tmp_path / "durations.json"
    order.FILE.write_text(json.dumps({"pages": 9, "core/a.py": 5, "core/b.py": 4}))

    def run(*seconds: float, **options: bool) -> dict[str, int]:
        watch = order.Stopwatch(keeps=True, **options)
        watch.groups = {"tests/site/d.py::x": "pages"}
        for name, taken in zip(("tests/core/a.py::x", "tests/site/d.py::x"), seconds, strict=True):
            watch.pytest_runtest_logreport(
                pytest.TestReport(name, ("", 0, ""), {}, "passed", None, "call", duration=taken)
            )
        watch.pytest_sessionfinish()
        rows: dict[str, int] = json.loads(order.FILE.read_text())
        return rows

    assert run(3, 12, chosen=True) == {"pages": 12, "core/a.py": 5, "core/b.py": 4}
    assert run(3, 0.2) == {"core/b.py": 4, "core/a.py": 3}


def test_a_subject_runs_again_where_a_file_changed(load: Any, tmp_path: Path) -> None:
    changes = load("changes")
    changes.FILE = tmp_path / "unchanged.json"
    (tmp_path / "core" / "io").mkdir(parents=True)
    reader = tmp_path / "core" / "io" / "reader.py"
    reader.write_text("one")
    first = changes.fingerprint("fuzz", tmp_path)
    assert changes.fingerprint("fuzz", tmp_path) == first
    reader.write_text("two")
    second = changes.fingerprint("fuzz", tmp_path)
    reader.rename(reader.with_name("other.py"))
    assert len({first, second, changes.fingerprint("fuzz", tmp_path)}) == 3

    changes.FILE.write_text("{}")
    results = {"fuzz/test_a.py": "passed", "packaging/test_demo.py": "failed"}
    recorder = changes.Recorder()
    for name, outcome in [*results.items(), ("packaging/test_demo.py", "passed")]:
        recorder.pytest_runtest_logreport(
            pytest.TestReport(f"tests/{name}::x", ("", 0, ""), {}, outcome, None, "call")  # type: ignore[arg-type]
        )
    recorder.pytest_sessionfinish(pytest.ExitCode.INTERRUPTED)
    assert changes.unchanged() == []
    recorder.pytest_sessionfinish(pytest.ExitCode.TESTS_FAILED)
    assert changes.unchanged() == ["fuzz"]
    changes.FILE.write_text(json.dumps({"fuzz": first}))
    assert changes.unchanged() == []


def test_subjects_name_tests_and_files_that_exist(load: Any) -> None:
    changes = load("changes")
    for subject in changes.SUBJECTS.values():
        assert all(list(HERE.glob(f"{start}*")) for start in subject.tests)
    items = [_Item("fuzz/test_files_fuzz.py"), _Item("core/io/test_io_gguf.py")]
    assert [changes.belongs(item, ["fuzz"]) for item in items] == [True, False]


def _patterns(changes: Any, name: str) -> Any:
    """A function that tells whether a subject depends on a file, by its path below the root."""
    files = {path for pattern in changes.SUBJECTS[name].files for path in HERE.parent.glob(pattern)}
    return lambda path: HERE.parent / path in files


@pytest.mark.parametrize("name", ["weights", "examples", "products", "sweeps"])
def test_a_subject_of_the_library_depends_on_all_of_it(name: str, load: Any) -> None:
    changes = load("changes")
    depends = _patterns(changes, name)
    rooms = ["core", "models", "simd_kernels", "wgsl_kernels", "src", "pyproject.toml"]
    listed = subprocess.run(
        ["git", "ls-files", "-z", *rooms, "tests/*.py"],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    known = [Path(path) for path in filter(None, listed)]
    beside = [path for path in known if path.parts[0] != "tests" or len(path.parts) == 2]
    real = [p for p in beside if not (HERE.parent / p).is_symlink() and (HERE.parent / p).exists()]
    assert len(real) > 1000
    assert [path for path in real if not depends(path)] == []


@pytest.mark.parametrize("name", ["weights", "examples", "products", "sweeps"])
def test_a_subject_of_the_library_depends_on_every_file_that_its_tests_name(
    name: str, load: Any
) -> None:
    """What they import, and their own folders: nothing of the site, of commands, of other rooms."""
    changes = load("changes")
    depends = _patterns(changes, name)
    starts = changes.SUBJECTS[name].tests
    tests = [path for start in starts for path in HERE.glob(f"{start}*")]
    assert len(tests) == len(starts)
    sources = {HERE / "conftest.py", *tests, *(path.parent / "conftest.py" for path in tests)}
    if name == "examples":
        sources |= {*(HERE.parent / "examples").glob("*.py")}
    for path in sorted(path for path in sources if path.exists()):
        assert depends(path.relative_to(HERE.parent)), path
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"rushlight[. ](import )?(web|site|cli)\b", text), path
        # A file elsewhere, by the names of its folders: parents[1] / "models" / "data".
        for room in re.findall(r'parents?\[[12]\] / "(\w+)"', text):
            inside = [f for f in changes.SUBJECTS[name].files if f"{room}/" in f]
            assert inside, f"{path} reads {room}"


def test_the_tab_depends_on_all_that_it_gets(load: Any) -> None:
    """Its tests, as they are packed; and every file that a site is built of."""
    depends = _patterns(load("changes"), "tab")
    place = HERE / "browser" / "test_core_in_tab.py"
    spec = importlib.util.spec_from_file_location("fresh_core_in_tab", place)
    assert spec is not None and spec.loader is not None
    packing: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packing)
    with zipfile.ZipFile(io.BytesIO(packing._zipped())) as packed:
        names = [name for name in packed.namelist() if name != "pytest.ini"]
    assert len(names) > 500
    assert [name for name in names if not depends(Path(name))] == []
    built = wheel.package_files().values()
    inside = [path.relative_to(HERE.parent) for path in built if "build" not in path.parts]
    assert len(inside) > 1000
    assert [path for path in inside if not depends(path)] == []
    for path in (HERE / "browser").glob("*"):
        assert not path.is_file() or depends(path.relative_to(HERE.parent)), path


def test_quick_takes_the_nearest_within_its_seconds(tmp_path: Path) -> None:
    place = HERE.parent / "tools" / "quick.py"
    spec = importlib.util.spec_from_file_location("fresh_quick", place)
    assert spec is not None and spec.loader is not None
    quick: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(quick)
    quick.RECORDED = tmp_path / "durations.json"
    quick.RECORDED.write_text(
        json.dumps({"core/test_a.py": 30, "prices": 50, "core/test_c.py": 29})
    )
    tests = [Path("tests", n) for n in ("core/test_a.py", "prices/test_b.py", "core/test_c.py",
                                        "core/test_d.py", "core/test_e.py")]  # fmt: skip
    chosen, left = quick.within(tests, 60)
    assert [path.name for path in chosen] == ["test_a.py", "test_c.py", "test_d.py"]
    assert [path.name for path in left] == ["test_b.py", "test_e.py"]
    nearest = quick.nearest([Path("core/optim/adam.py")])
    assert nearest and all("optim" in path.as_posix() for path in nearest[:1])

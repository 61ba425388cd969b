"""Tests that run where their files changed: fuzzing, sanitizers, prices, the wheels, `make demo`.

And what is long and depends on the library alone: real weights, examples, products on webgpu, the
sweeps over all families, and the library's own tests in a tab.

`unchanged.json` has a hash of each subject's files, as `make subjects` or `make test-all` last
found all of its tests passing. Where the files are still the same, `make test` leaves the subject
out and says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
FILE = HERE / "unchanged.json"


class Subject(NamedTuple):
    """Some tests, and the files that they depend on: patterns below the root of the checkout."""

    tests: tuple[str, ...]  # how their paths begin
    files: tuple[str, ...]


# What reads files calls most of the library, so little but the site and the commands is left out.
_READERS = (
    "core/**/*.py", "models/**/*", "web/**/*.*", "site/shared/opening/*", "simd_kernels/*.[ch]",
    "tests/core/samples/*.py", "tests/fuzz/**/*.*",
)  # fmt: skip
_KERNELS = (
    "simd_kernels/*.[ch]", "simd_kernels/*.py", "simd_kernels/*.def", "core/ops/*.py",
    "core/backends/cpu/**/*.py", "tests/simd/*.py",
)  # fmt: skip
# What the examples of additions touch, are made by, and run with.
_PRICES = (
    "simd_kernels/*", "core/ops/*.py", "core/functional/**/*.py", "core/basis/quantized.py",
    "core/onnx/registry.py", "models/families/*.py", "models/layers/*.py", "models/tasks/*.py",
    "site/builder/*.py", "tools/*.py", "tests/*.py", "tests/prices/*", "tests/models/*.py",
    "tests/webgpu/*.py",
)  # fmt: skip
_WHEELS = (
    "pyproject.toml",
    "hatch_build.py",
    "src/rushlight/*.py",
    "simd_kernels/*",
    "web/assets.toml",
    "site/builder/wheel.py",
    "tests/packaging/*",
)
_DEMO = (
    "Makefile", "pyproject.toml", "hatch_build.py", "tools/*.sh", "web/**/*.*", "site/**/*.*",
    "core/io/hub/**/*", "models/hub/*", "cli/*.py", "models/gguf/*.py", "tests/packaging/*",
)  # fmt: skip
# All that `import rushlight` may reach in a process, and what every test runs with.
_LIBRARY = (
    "core/**/*", "models/**/*", "simd_kernels/**/*", "wgsl_kernels/**/*", "src/**/*",
    "web/**/*.py", "pyproject.toml", "tests/*.py",
)  # fmt: skip
_WEIGHTS = ("smollm2", "minilm", "bergamot", "titles", "wordllama")
_PRODUCTS = ("matmul", "half", "lifetime")
_SWEEPS = ("changed_keys", "checkpoint_names", "lying_configs")
_TAB = ("core_in_tab", "templates_in_tab", "autotune_in_tab", "tint")
# What a tab gets: the site as it is built, and the tests that run in it.
_TAB_FILES = (
    *_LIBRARY, "web/**/*", "site/**/*", "cli/**/*", "hatch_build.py", "README.md",
    "tests/core/**/*", "tests/models/**/*", "tests/simd/*", "tests/webgpu/*", "tests/browser/**/*",
)  # fmt: skip
SUBJECTS = {
    "fuzz": Subject(("fuzz/",), _READERS),
    "prices": Subject(("prices/",), _PRICES),
    "sanitizers": Subject(("simd/test_sanitized.py",), _KERNELS),
    "wheels": Subject(("packaging/test_targets.py", "packaging/test_platform_wheels.py"), _WHEELS),
    "demo": Subject(("packaging/test_demo.py",), _DEMO),
    "weights": Subject(
        tuple(f"parity/test_{name}.py" for name in _WEIGHTS), (*_LIBRARY, "tests/parity/**/*")
    ),
    "examples": Subject(("test_examples.py",), (*_LIBRARY, "examples/**/*")),
    "products": Subject(
        tuple(f"webgpu/test_{name}.py" for name in _PRODUCTS),
        (*_LIBRARY, "tests/webgpu/*", "tests/core/samples/*", "tests/models/data/*"),
    ),
    "sweeps": Subject(
        tuple(f"models/test_{name}.py" for name in _SWEEPS), (*_LIBRARY, "tests/models/**/*")
    ),
    "tab": Subject(tuple(f"browser/test_{name}.py" for name in _TAB), _TAB_FILES),
}


def _contents(patterns: tuple[str, ...], root: Path) -> Iterator[bytes]:
    """The name and the hash of every file, in order."""
    paths = {path for pattern in patterns for path in root.glob(pattern)}
    for path in sorted(paths):
        if path.is_file() and not {"build", "__pycache__"} & set(path.relative_to(root).parts):
            yield path.relative_to(root).as_posix().encode()
            yield hashlib.sha256(path.read_bytes()).digest()


def fingerprint(name: str, root: Path = HERE.parent) -> str:
    """A hash of the names and contents of a subject's files."""
    total = hashlib.sha256()
    for content in _contents(SUBJECTS[name].files, root):
        total.update(content)
    return total.hexdigest()


def unchanged() -> list[str]:
    """The subjects whose files are as they were when all of their tests passed."""
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    return [name for name in SUBJECTS if recorded.get(name) == fingerprint(name)]


def belongs(item: pytest.Item, names: list[str]) -> bool:
    """Whether a test is one of the subjects `names`."""
    place = item.path.relative_to(HERE).as_posix()
    return any(place.startswith(SUBJECTS[name].tests) for name in names)


class Recorder:
    """Writes the hash of each subject whose tests passed, at the end of a run of them all."""

    def __init__(self) -> None:
        self.passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note whether a test of a subject failed."""
        place = report.nodeid.partition("::")[0].removeprefix("tests/")
        for name, subject in SUBJECTS.items():
            if place.startswith(subject.tests):
                self.passed[name] = self.passed.get(name, True) and not report.failed

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the hashes; a subject that failed loses its own, a run that stopped keeps all."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        rows = json.loads(FILE.read_text(encoding="utf-8"))
        for name, passed in self.passed.items():
            rows[name] = fingerprint(name) if passed else ""
        FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

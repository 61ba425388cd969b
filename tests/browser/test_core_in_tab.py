"""The tests of the core and the models, run a second time inside a browser tab, per device.

And those of the C kernels with both WebAssembly modules.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ARGS = ["-q", "--tb=short", "-p", "no:cacheprovider", "-W", "error", "--durations=15"]
# Parts of the files, so that no single test takes very long, and two workers share them.
SHARES = {"cpu": 2, "webgpu": 4, "numpy": 2, "simd128": 1, "relaxed": 1}
# About how long files take on webgpu: seconds on a busy machine; the others count 4.
LONG = {
    "core/test_registry.py": 240, "webgpu/test_attention.py": 85, "core/test_jit_training.py": 75,
    "core/test_models_generate.py": 72, "webgpu/test_experts.py": 45, "webgpu/test_norm.py": 42,
    "core/test_goldens.py": 41, "core/test_jit.py": 37, "core/test_blocks.py": 36,
    "core/test_training.py": 35, "webgpu/test_lifetime.py": 30, "webgpu/test_conv.py": 25,
    "webgpu/test_tune.py": 24, "core/test_async_reads.py": 17, "webgpu/test_half.py": 16,
    "webgpu/test_movement.py": 16, "core/test_models_llama.py": 15, "core/test_experts.py": 15,
}  # fmt: skip
# What the places but the plain cpu and webgpu devices run with.
KERNELS = {
    "numpy": "numpy",
    "simd128": "kernels.simd128.wasm",
    "relaxed": "kernels.relaxed.wasm",
}


def _files(device: str) -> list[str]:
    """The test files that have something for the tab; some import what only a process has."""
    room = "simd" if device in ("simd128", "relaxed") else "core"
    files = sorted((ROOT / "tests" / room).glob("test_*.py"))
    if device == "webgpu":
        files += sorted((ROOT / "tests" / "webgpu").glob("test_*.py"))
    native = re.compile(r"^pytestmark = pytest\.mark\.native$", re.M)
    return [
        path.relative_to(ROOT).as_posix()
        for path in files
        if not native.search(path.read_text(encoding="utf-8"))
    ]


def _share(device: str, share: int) -> list[str]:
    """The files of a share: each goes, the longest first, to the share that has least so far."""
    long = {f"tests/{name}": cost for name, cost in LONG.items()} if device == "webgpu" else {}
    shares: list[tuple[int, list[str]]] = [(0, [])] * SHARES[device]
    for file in sorted(_files(device), key=lambda file: -long.get(file, 4)):
        least = min(range(len(shares)), key=lambda i: shares[i][0])
        total, files = shares[least]
        shares[least] = (total + long.get(file, 4), [*files, file])
    return sorted(shares[share][1])


def _arguments(device: str, share: int) -> list[str]:
    """Which tests: on webgpu those that name it; all others run once, beside those on cpu."""
    files = _share(device, share)
    return ["-m", "not native", *(["-k", "webgpu"] if device == "webgpu" else []), *files]


def _zipped() -> bytes:
    """tests/*.py, tests/core, tests/simd, tests/webgpu and the configuration that applies."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for path in [ROOT / "README.md", *sorted((ROOT / "tests").glob("*.py")),
                     *sorted((ROOT / "tests" / "core").rglob("*")),
                     *sorted((ROOT / "tests" / "simd").rglob("*")),
                     *sorted((ROOT / "tests" / "webgpu").rglob("*"))]:  # fmt: skip
            if path.is_file() and "__pycache__" not in path.parts:
                pack.write(path, path.relative_to(ROOT).as_posix())
        pack.writestr("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\n")
    return out.getvalue()


def _environment(place: str) -> dict[str, str]:
    device = "webgpu" if place == "webgpu" else "cpu"
    return {"RUSHLIGHT_TEST_DEVICES": device, "RUSHLIGHT_KERNELS": KERNELS.get(place, "")}


def _collected(arguments: list[str], device: str) -> set[str]:
    """The tests that a Python process selects with the same arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments], cwd=ROOT,
        capture_output=True, text=True, check=True,
        env={**os.environ, **_environment(device), "RUSHLIGHT_KERNELS": ""},
    )  # fmt: skip
    found = {line for line in done.stdout.splitlines() if line.startswith("tests/")}
    # A module of the tab has one set of instructions, a processor several.
    return {name for name in found if not re.search(r"[\[-]avx\w*[\]-]", name)}


@pytest.mark.parametrize(
    ("place", "share"),
    [
        pytest.param(device, i, marks=pytest.mark.xdist_group(f"tab-{device}-{i}"))
        for device, count in SHARES.items()
        for i in range(count)
    ],
)
def test_core_passes_in_the_tab(
    place: str, share: int, tab_pytest: Callable[..., dict[str, Any]]
) -> None:
    arguments = _arguments(place, share)
    result = tab_pytest(_zipped(), [*ARGS, *arguments], _environment(place))
    print(result["said"][-3000:])
    assert result["code"] == 0, result["said"]
    assert (result["failed"], result["skipped"]) == (0, 0), result["said"]
    collected = _collected(arguments, place)
    assert collected
    # The tab may have more: some tests are only for what a browser has.
    assert collected - set(result["passed"]) == set()

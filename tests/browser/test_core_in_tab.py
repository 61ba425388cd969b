"""Tests of the core and the models, run a second time inside a browser tab, per device.

And those of the C kernels with both WebAssembly modules. What runs in a tab is what a tab may do
differently: every op once per device, and the files of FILES.
"""

from __future__ import annotations

import functools
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

from rushlight.core.backends.cpu.lowering import TABLES
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.tensor.op import REGISTRY

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ARGS = ["-q", "--tb=short", "-p", "no:cacheprovider", "-W", "error", "--durations=15"]
# Per place, what differs there from a process. Everywhere: numbers (memory of 32 bits, one thread,
# Dawn and Tint instead of wgpu and naga), which every op shows. On cpu: waiting, reading what a
# browser has, the side modules under captured functions, a model that embeds, one that writes, and
# one with each kind of layer.
# On webgpu: the port and what lies on it, and the same models. tests/browser has more of its own:
# published templates (test_templates_in_tab.py), tuning (test_autotune_in_tab.py), and training
# (without_jspi.py).
OPS = ["core/ops/test_registry.py", "core/ops/test_vast_shapes.py"]
FILES = {
    "cpu": [
        *OPS,
        "core/tensor/test_async_reads.py",
        "core/basis/test_blocks.py",
        "core/basis/test_encoding.py",
        "core/nn/test_quantizing.py",
        "core/backends/test_devices.py",
        "core/tensor/test_interop.py",
        "core/io/test_io_gguf.py",
        "core/io/test_numpy_files.py",
        "core/io/test_io_safetensors.py",
        "core/io/test_io_source.py",
        "core/jit/test_jit.py",
        "core/onnx/test_load_async.py",
        "core/onnx/test_timed_async.py",
        "core/ops/test_random.py",
        "core/io/test_template.py",
        "core/io/test_tokenizer.py",
        "models/test_generate.py",
        "models/test_sentence.py",
        "models/test_kinds_on_devices.py",
        "models/test_whisper.py",
    ],
    "webgpu": [
        *OPS,
        "core/tensor/test_async_reads.py",
        "core/basis/test_blocks.py",
        "core/backends/test_devices.py",
        "core/onnx/test_load_async.py",
        "core/onnx/test_timed_async.py",
        "models/test_generate.py",
        "models/test_sentence.py",
        "models/test_kinds_on_devices.py",
        "models/test_whisper.py",
        "webgpu/test_half.py",
        "webgpu/test_int64.py",
        "webgpu/test_lifetime.py",
        "webgpu/test_port.py",
        "webgpu/test_probe.py",
        "webgpu/test_replay.py",
        "webgpu/test_status.py",
    ],
    # The ops that C kernels take elsewhere; all others run the same kernels on cpu.
    "numpy": OPS,
    "simd128": ["simd"],
    "relaxed": ["simd"],
}
# Parts of the files, so that no single test takes very long, and two workers share them.
SHARES = {"cpu": 1, "webgpu": 2, "numpy": 1, "simd128": 1, "relaxed": 1}
# About how long files take on webgpu: seconds on a busy machine; the others count 4.
LONG = {
    "core/ops/test_registry.py": 240,
    "models/test_generate.py": 72,
    "models/test_kinds_on_devices.py": 40,
    "core/basis/test_blocks.py": 36,
    "webgpu/test_lifetime.py": 30,
    "core/tensor/test_async_reads.py": 17,
    "webgpu/test_half.py": 16,
}
# Whether this process has the library or not.
_LOWERED = sorted({*ELEMENTWISE, *(name for table in TABLES for name in table)} & {*REGISTRY})
CHOSEN = {
    # Central differences ask the rules, which are Python over ops: a process has them. The tab has
    # the rules' results in every dtype, and the ops.
    "cpu": "not gradients_agree_with_differences",
    # Of samplers the ones with most rules, and two ways of pooling: the others are ops that lie
    # beside them in the same captured steps.
    "webgpu": "webgpu and not (rows_that_end and (top_p or top_k)) and not "
    "(batches_change_nothing and (-False or sqrt_len or weightedmean or lasttoken))",
    "numpy": "vast or complete or "
    f"(test_matches_its_reference and ({' or '.join(f'[{name}-cpu]' for name in _LOWERED)}))",
}
# What the places but the plain cpu and webgpu devices run with.
KERNELS = {
    "numpy": "numpy",
    "simd128": "kernels.simd128.wasm",
    "relaxed": "kernels.relaxed.wasm",
}


def _files(place: str) -> list[str]:
    """The test files of a place; of a folder those that have something for the tab."""
    native = re.compile(r"^pytestmark = pytest\.mark\.native$", re.M)
    found = []
    for name in FILES[place]:
        path = ROOT / "tests" / name
        for file in [path] if path.is_file() else sorted(path.glob("test_*.py")):
            alone = native.search(file.read_text(encoding="utf-8")) is not None
            assert not alone or path.is_dir(), f"{name} has nothing for a tab"
            if not alone:
                found.append(file.relative_to(ROOT).as_posix())
    return found


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
    """Which tests: on webgpu those that name it; all others run once, beside those on cpu.

    With NumPy's kernels what needs a kernel: the ops that have one in C, but not the gradients'
    central differences, which the kernels of cpu have been through.
    """
    files = _share(device, share)
    return ["-m", "not native", *(["-k", CHOSEN[device]] if device in CHOSEN else []), *files]


@functools.cache
def _zipped() -> bytes:
    """tests/*.py, the folders whose tests run in the tab, and the configuration that applies."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for path in [
            ROOT / "README.md",
            *sorted((ROOT / "tests").glob("*.py")),
            *(
                file
                for room in ("core", "models", "simd", "webgpu")
                for file in sorted((ROOT / "tests" / room).rglob("*"))
            ),
        ]:
            if path.is_file() and "__pycache__" not in path.parts:
                pack.write(path, path.relative_to(ROOT).as_posix())
        pack.writestr("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\n")
    return out.getvalue()


def _environment(place: str) -> dict[str, str]:
    device = "webgpu" if place == "webgpu" else "cpu"
    return {"RUSHLIGHT_TEST_DEVICES": device, "RUSHLIGHT_KERNELS": KERNELS.get(place, "")}


def _collected(arguments: list[str], device: str) -> set[str]:
    """The tests that a Python process selects with the same arguments."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**outside, **_environment(device), "RUSHLIGHT_KERNELS": ""},
    )
    found = {line for line in done.stdout.splitlines() if line.startswith("tests/")}
    # A module of the tab has one set of instructions, a processor several.
    return {name for name in found if not re.search(r"[\[-]avx\w*[\]-]", name)}


@pytest.mark.timeout(3600)  # many tests in one
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

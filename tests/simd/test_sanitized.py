"""The tests of the kernels once more, with a library that watches addresses and arithmetic."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from rushlight.core.io.hub.fetch import cache_dir

pytestmark = pytest.mark.native
ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "simd_kernels"
HERE = Path(__file__)
FILES = sorted(p.name for p in HERE.parent.glob("test_*.py") if p.name != HERE.name)
X86 = {
    "base": "-march=x86-64-v2",
    "avx2": "-march=x86-64-v3",
    "avx512": "-march=x86-64-v4 -mavx512vnni -mprefer-vector-width=512",
}
# undefined: of arithmetic, and of alignment (test_unaligned.py).
WATCH = (
    "-fsanitize=address,undefined,alignment",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)


def _run(*args: str) -> str:
    done = subprocess.run(args, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


COMMON = (
    *("-O1", "-g1", "-std=gnu11", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"),
    *("-Wno-psabi", *WATCH, "-I", str(SOURCES)),
)


@pytest.fixture(scope="module")
def watched() -> Path:
    """The library as gcc builds it with its sanitizers: a second compiler for the same source.

    All workers and runs share that of the same sources, flags and compiler.
    """
    assert shutil.which("gcc"), "the sanitizers are gcc's: apt-get install gcc"
    about = hashlib.sha256(f"{COMMON} {X86} {_run('gcc', '--version')}".encode())
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in (".c", ".h", ".def"):
            about.update(path.name.encode() + path.read_bytes())
    folder = cache_dir() / "tests" / "watched"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"{about.hexdigest()}.so"
    with FileLock(folder / "lock"):
        if not library.exists():
            for old in sorted(folder.glob("*.so"), key=os.path.getmtime)[:-4]:
                old.unlink()
            with tempfile.TemporaryDirectory(dir=folder) as place:
                _build(Path(place) / "kernels.so").rename(library)
    return library


def _build(library: Path) -> Path:
    out = library.parent
    variants = X86 if platform.machine() == "x86_64" else {"base": ""}
    jobs = [("main.c", ""), ("pool.c", "")]
    jobs += [("variant.c", f"{x} -DRL_TABLE=rl_table_{name}") for name, x in variants.items()]
    objects = [str(out / f"{i}.o") for i in range(len(jobs))]
    with ThreadPoolExecutor(2) as pool:
        list(
            pool.map(
                lambda job, target: _run(
                    "gcc", *COMMON, *job[1].split(), "-c", str(SOURCES / job[0]), "-o", target
                ),
                jobs,
                objects,
            )
        )
    _run("gcc", "-shared", *WATCH, "-o", str(library), *objects, "-lpthread")
    return library


def _watching(library: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        env={
            **os.environ,
            "RUSHLIGHT_KERNELS": str(library),
            "RUSHLIGHT_REQUIRE": "",
            "PYTHONPATH": str(ROOT / "src"),
            "LD_PRELOAD": _run("gcc", "-print-file-name=libasan.so"),
            # Every buffer is the allocator's own, with fences around it; Python itself leaks.
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:"
            "max_allocation_size_mb=2048",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1000,
    )


@pytest.mark.parametrize("file", FILES)
def test_the_kernels_stay_in_their_buffers(watched: Path, file: str) -> None:
    done = _watching(
        watched,
        "-m",
        "pytest",
        "-qs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        f"tests/simd/{file}",
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[:3000]}"
    assert " passed" in done.stdout


@pytest.mark.parametrize("options", [(), ("--unchecked",)])
def test_kernels_bound_every_size(watched: Path, options: tuple[str, ...]) -> None:
    worker = HERE.parents[1] / "fuzz" / "vast_shapes.py"  # one case of each op
    done = _watching(watched, str(worker), "0", "120", *options)
    found = json.loads(done.stdout)
    assert not found.get("crashed") and not found.get("wrong"), f"{found}\n{done.stderr[:3000]}"
    assert found["done"] > 10 and found["raised"] > 10


# A message that lies about its buffer's size, so that the kernel reads on behind it.
LIE = """
import rushlight as rl
from rushlight.core.backends.cpu import simd
from rushlight.core.basis.graph import TensorView
x, out = rl.zeros(16), rl.zeros(4096)
behind = TensorView(x.storage, out.layout, x.dtype)
words, _ = simd.library.message([simd.Record("copy", (out, behind))])
words[7] = 4096 * 4
simd.library.run(words, ["copy"])
"""


def test_a_read_past_a_buffer_is_seen(watched: Path) -> None:
    done = _watching(watched, "-c", LIE)
    assert done.returncode != 0 and "AddressSanitizer: heap-buffer-overflow" in done.stderr

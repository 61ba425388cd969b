"""The C kernels compile for every machine that a platform wheel is for; warnings are errors."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
# How the files of each system begin: ELF's machine, Mach-O's processor, a PE's first letters.
BEGINS = {
    "linux-x86_64": (18, b"\x3e\x00"),
    "linux-aarch64": (18, b"\xb7\x00"),
    "macos-arm64": (4, b"\x0c\x00\x00\x01"),
    "macos-x86_64": (4, b"\x07\x00\x00\x01"),
    "windows-x86_64": (0, b"MZ"),
}


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    """simd_kernels/build.py, by its path as the build hook loads it."""
    spec = importlib.util.spec_from_file_location("of_kernels", ROOT / "simd_kernels" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def test_every_platform_is_tried(builder: ModuleType) -> None:
    assert {n for n, t in builder.TARGETS.items() if t.tag} == BEGINS.keys()
    assert builder.this_machine() in {*BEGINS, None}


@pytest.mark.parametrize("name", BEGINS)
def test_a_platform_has_its_library(builder: ModuleType, name: str, tmp_path: Path) -> None:
    # What lies there, built by the same function from these sources, is not built again.
    own = name == builder.this_machine() and builder.current([name])
    library = builder.build_missing([name])[0] if own else builder.build(name, tmp_path)
    built = library.read_bytes()
    at, begin = BEGINS[name]
    assert built[at : at + len(begin)] == begin
    assert b"rl_run" in built

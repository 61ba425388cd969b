"""Every platform's library: it compiles, warnings being errors, and needs what its tag allows."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import lief
import pytest

ROOT = Path(__file__).resolve().parents[2]
# What each platform's files are called by lief, and the libraries that every such system has.
GLIBC = {"libc.so.6", "libpthread.so.0"}
PLATFORMS = {
    "linux-x86_64": (lief.ELF, "X86_64", GLIBC),
    "linux-aarch64": (lief.ELF, "AARCH64", GLIBC),
    "musl-x86_64": (lief.ELF, "X86_64", {"libc.so"}),
    "musl-aarch64": (lief.ELF, "AARCH64", {"libc.so"}),
    "macos-arm64": (lief.MachO, "ARM64", {"/usr/lib/libSystem.B.dylib"}),
    "macos-x86_64": (lief.MachO, "X86_64", {"/usr/lib/libSystem.B.dylib"}),
    "windows-x86_64": (lief.PE, "AMD64", {"KERNEL32.dll"}),  # and the C runtime of Windows 10
}
FUNCTIONS = {
    f"rl_{name}"
    for name in "dtype encode kernel_kinds kernel_name run set_threads variant version".split()
}
# What musl has had since 1.1, as it gives its symbols no versions.
MUSL = set(
    "__sched_cpucount free getauxval malloc memcpy memset pthread_atfork pthread_attr_destroy "
    "pthread_attr_init pthread_attr_setdetachstate pthread_cond_broadcast pthread_cond_wait "
    "pthread_create pthread_mutex_lock pthread_mutex_unlock pthread_setaffinity_np "
    "sched_getaffinity sched_getcpu sched_yield".split()
)


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
    assert {n for n, t in builder.TARGETS.items() if t.tag} == PLATFORMS.keys()
    assert builder.this_machine() in {*PLATFORMS, None}


def test_musl_is_told_from_glibc(builder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(builder.platform, "machine", lambda: "x86_64")
    for system, name in (("pc-linux-gnu", "linux-x86_64"), ("alpine-linux-musl", "musl-x86_64")):
        found = {"HOST_GNU_TYPE": f"x86_64-{system}"}
        monkeypatch.setattr(builder.sysconfig, "get_config_var", found.get)
        assert builder.this_machine() == name


def _lowest(library: Any) -> str:
    """The oldest system that the library runs on, as its wheel's tag begins."""
    if isinstance(library, lief.MachO.Binary):
        version: Any = library.build_version
        return "macosx_{}_{}".format(*version.minos)
    if isinstance(library, lief.PE.Binary):
        return "win"
    if "libc.so" in library.libraries:
        assert {str(symbol.name) for symbol in library.imported_symbols} <= MUSL
        return "musllinux_1_2"
    needed = [
        re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", aux.name)
        for need in library.symbols_version_requirement
        for aux in need.get_auxiliary_symbols()
    ]
    assert needed and all(needed)
    versions = [(int(v[1]), int(v[2])) for v in needed if v is not None]
    assert max(versions) <= (2, 17)
    return "manylinux_2_17"


# The wheel of Windows is built in that group too, and takes the same library.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.xdist_group("packaging")) if n == "windows-x86_64" else n
        for n in PLATFORMS
    ],
)
def test_a_platform_has_its_library(builder: ModuleType, name: str) -> None:
    path = builder.library(name)
    library: Any = lief.parse(str(path))
    kind, machine, allowed = PLATFORMS[name]
    assert isinstance(library, kind.Binary)
    found = (
        library.header.cpu_type
        if kind is lief.MachO
        else getattr(library.header, "machine" if kind is lief.PE else "machine_type")
    )
    assert found.name == machine
    exported = {str(f.name).removeprefix("_") for f in library.exported_functions}
    assert exported >= FUNCTIONS
    needed = [str(getattr(x, "name", x)) for x in library.libraries]
    if kind is lief.MachO:
        assert needed.pop(0) == f"@rpath/{path.name}", "its own name, where it was built"
        # A Mac with Apple's processor runs signed code only.
        assert library.has_code_signature or machine == "X86_64"
    assert {n for n in needed if not n.startswith("api-ms-win-crt-")} <= allowed
    assert builder.TARGETS[name].tag.startswith(_lowest(library))
    assert str(ROOT).encode() not in path.read_bytes()

"""Compile the C kernels with zig, for this machine, for others, and for the browser tab.

``python -m rushlight.simd_kernels.build [target ...]`` builds into simd_kernels/build: the library
for this machine and both WebAssembly modules, or the named targets. --list prints the targets,
--wheels those that have a wheel, --current exits with 0 if all is up to date, --zig prints the
package that pip must install. This file uses the standard library only, because the build hook
loads it by its path.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ZIG = "ziglang==0.17.0"
_COMMON = ("-O3", "-std=c11", "-ffp-contract=off", "-fno-math-errno", "-g0", "-Wall", "-Wextra",
           "-fno-sanitize=undefined", "-Werror")  # fmt: skip
_X86 = {
    "rl_table_base": "x86_64_v2",
    "rl_table_avx2": "x86_64_v3",
    "rl_table_avx512": "x86_64_v4+avx512vnni",
}


@dataclass(frozen=True)
class Target:
    """One library: zig's target, the processors its kernels are built for, and its wheel's tag."""

    triple: str
    cpus: dict[str, str]
    file: str
    tag: str


# Processors of Linux without the dot product of ARMv8.2 exist, such as the Cortex-A72.
_ARM = {"rl_table_base": "generic", "rl_table_dotprod": "generic+dotprod"}


def _linux(libc: str, tag: str, machine: str, cpus: dict[str, str]) -> Target:
    return Target(f"{machine}-linux-{libc}", cpus, "kernels.so", tag.format(machine))


# What zig links to, and the tag of the machines that have it.
_GLIBC = ("gnu.2.17", "manylinux_2_17_{0}.manylinux2014_{0}")
_MUSL = ("musl", "musllinux_1_2_{0}")
TARGETS = {
    "linux-x86_64": _linux(*_GLIBC, "x86_64", _X86),
    "linux-aarch64": _linux(*_GLIBC, "aarch64", _ARM),
    "musl-x86_64": _linux(*_MUSL, "x86_64", _X86),
    "musl-aarch64": _linux(*_MUSL, "aarch64", _ARM),
    "macos-arm64": Target(
        "aarch64-macos.11.0", {"rl_table_base": "apple_m1"}, "kernels.dylib", "macosx_11_0_arm64"
    ),
    "macos-x86_64": Target("x86_64-macos.11.0", _X86, "kernels.dylib", "macosx_11_0_x86_64"),
    "windows-x86_64": Target("x86_64-windows-gnu", _X86, "kernels.dll", "win_amd64"),
    "wasm-simd128": Target("wasm32-emscripten", {}, "kernels.simd128.wasm", ""),
    "wasm-relaxed": Target("wasm32-emscripten", {}, "kernels.relaxed.wasm", ""),
}


def this_machine() -> str | None:
    """The target of this machine; None if it is not supported."""
    system = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform, "")
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if system == "macos" and machine == "aarch64":
        machine = "arm64"
    if system == "linux" and "musl" in str(sysconfig.get_config_var("HOST_GNU_TYPE")):
        system = "musl"
    name = f"{system}-{machine}"
    return name if name in TARGETS else None


def sources() -> list[Path]:
    """The files that a library depends on."""
    return sorted(p for p in HERE.iterdir() if p.suffix in (".c", ".h", ".def", ".py"))


def stamp() -> str:
    """A hash of the sources."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _zig(*args: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ziglang", *args], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"zig {' '.join(args)}\n{done.stderr}")


def build(name: str, out: Path, *flags: str) -> Path:
    """Build one target of TARGETS into the folder `out`; returns the library's path.

    flags: extra flags of the compiler, before all others. RuntimeError with zig's words on failure.
    """
    target = TARGETS[name]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder, ThreadPoolExecutor(2) as pool:
        base = (
            "cc",
            *flags,
            "-target",
            target.triple,
            *_COMMON,
            "-fvisibility=hidden",
            "-I",
            str(HERE),
        )
        jobs: list[tuple[str, ...]] = []
        objects = [str(Path(folder, f"{i}.o")) for i in range(2 + max(1, len(target.cpus)))]
        if name.startswith("wasm"):
            # Node 20 and older browsers do not support sums in constant expressions (data offsets).
            simd: tuple[str, ...] = ("-msimd128", "-mno-extended-const", "-fPIC")
            simd += ("-mrelaxed-simd",) if name == "wasm-relaxed" else ()
            jobs = [
                (*base, *simd, "-c", str(HERE / f), "-o", o)
                for f, o in zip(("main.c", "pool.c", "variant.c"), objects, strict=True)
            ]
        else:
            first = next(iter(target.cpus.values()))
            cpu = (f"-mcpu={first}", "-fPIC")
            jobs = [
                (*base, *cpu, "-c", str(HERE / f), "-o", o)
                for f, o in zip(("main.c", "pool.c"), objects, strict=False)
            ]
            for (table, processor), o in zip(target.cpus.items(), objects[2:], strict=True):
                wide = ("-mprefer-vector-width=512",) if "v4" in processor else ()
                jobs.append((*base, f"-mcpu={processor}", *wide, "-fPIC", f"-DRL_TABLE={table}",
                             "-c", str(HERE / "variant.c"), "-o", o))  # fmt: skip
        list(pool.map(lambda job: _zig(*job), jobs))
        linked = Path(folder, target.file)
        if name.startswith("wasm"):
            side = "--experimental-pic --no-entry --export-dynamic --import-memory --strip-all"
            options = ("-shared", "--allow-undefined", *side.split())
            _zig("wasm-ld", *options, "-o", str(linked), *objects)
        else:
            # Otherwise the name would be the path that the library was built at.
            install_name = (
                (f"-Wl,-install_name,@rpath/{target.file}",) if "macos" in target.triple else ()
            )
            link = ("cc", *flags, "-target", target.triple, "-shared", "-s", *install_name)
            _zig(*link, "-o", str(linked), *objects)
        return linked.replace(out / target.file)


TAB = ("wasm-simd128", "wasm-relaxed")


def wanted() -> list[str]:
    """The targets that a checkout needs: this machine's, if supported, and the tab's."""
    host = this_machine()
    return [*([host] if host else []), *TAB]


def _mark(name: str, out: Path) -> Path:
    return out / f"{TARGETS[name].file}.stamp"


def current(names: Sequence[str], out: Path = HERE / "build") -> bool:
    """Whether these targets are built from the present sources."""
    marks = [_mark(n, out) for n in names if (out / TARGETS[n].file).is_file()]
    return len(marks) == len(names) and all(m.is_file() and m.read_text() == stamp() for m in marks)


def build_missing(names: Sequence[str], out: Path = HERE / "build") -> list[Path]:
    """Build the targets that are not up to date; returns the paths of all."""
    for name in names:
        if not current([name], out):
            build(name, out)
            _mark(name, out).write_text(stamp())
    return [out / TARGETS[n].file for n in names]


def library(name: str) -> Path:
    """The library of one target, up to date; those of other machines have a folder each."""
    out = HERE / "build"
    return build_missing([name], out if name == this_machine() else out / name)[0]


def main(args: list[str]) -> int:
    """The command; the module's docstring describes it."""
    if args == ["--list"]:
        print(*TARGETS, sep="\n")
        return 0
    if args == ["--wheels"]:
        print(*(name for name, target in TARGETS.items() if target.tag), sep="\n")
        return 0
    if args == ["--zig"]:
        print(ZIG)
        return 0
    if args == ["--current"]:
        return 0 if current(wanted()) else 1
    unknown = [a for a in args if a not in TARGETS]
    if unknown:
        print(f"no target {unknown[0]!r}; there are: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    if importlib.util.find_spec("ziglang") is None and (args or not current(wanted())):
        print(f"the kernels are built with zig: pip install {ZIG}", file=sys.stderr)
        return 1
    if not args and this_machine() is None:
        print(f"C kernels are not supported on {sys.platform} {platform.machine()}; NumPy's run")
    # The libraries of different machines have the same name, so each has a folder.
    libraries = [build(a, HERE / "build" / a) for a in args] if args else build_missing(wanted())
    for path in libraries:
        print(path, path.stat().st_size)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

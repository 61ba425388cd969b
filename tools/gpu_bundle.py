"""Pack `benchmarks/gpu.py` for a machine with Python, NumPy and a GPU's driver, and no network.

    python tools/gpu_bundle.py [OUT.tar.xz]     writes dist/gpu-bundle.tar.xz
    tar xf gpu-bundle.tar.xz && python gpu-bundle/run.py [--stages check,ops]     on that machine

The archive has the rooms that run natively with their built kernels, the benchmarks, wheels of what
they import for Python 3.11 to 3.13 on Linux (x86-64), llama.cpp's libraries with its Vulkan
backend, and Vulkan's loader. What was measured is then in gpu-bundle/rushlight/benchmarks/results.
"""

from __future__ import annotations

import ctypes.util
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("core", "models", "wgsl_kernels", "simd_kernels", "web", "src", "benchmarks")
MOST = 60 << 20  # bytes of the archive
PYTHONS = ("3.11", "3.12", "3.13")
WHEELS = ("wgpu==0.32.0", "cffi==2.1.1", "pycparser==3.12", "tokenizers==0.23.3", "jinja2==3.1.6",
          "markupsafe==3.0.4")  # fmt: skip
LOADER = "libvulkan.so.1"

RUN = '''"""Unpack what this Python needs beside this file, and run benchmarks/gpu.py with it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
packages = HERE / f"packages-{TAG}"
for wheel in sorted((HERE / "wheels").glob("*.whl")):
    if "-py3-" in wheel.name or "-abi3-" in wheel.name or f"-{TAG}-" in wheel.name:
        zipfile.ZipFile(wheel).extractall(packages)
drivers = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]
env = dict(os.environ)
if "VK_DRIVER_FILES" not in env and not any(Path(d).is_dir() for d in drivers):
    driver = HERE / "nvidia.json"
    library = '{"library_path": "libGLX_nvidia.so.0", "api_version": "1.3.0"}'
    driver.write_text('{"file_format_version": "1.0.0", "ICD": %s}' % library)
    env["VK_DRIVER_FILES"] = str(driver)
# The loader of the bundle comes last: a machine's own fits its driver.
places = [env.get("LD_LIBRARY_PATH"), str(HERE / "lib")]
env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, places))
env["PYTHONPATH"] = os.pathsep.join([str(HERE / "rushlight" / "src"), str(packages)])
env.setdefault("RUSHLIGHT_LLAMA", str(HERE / "llama"))
script = HERE / "rushlight" / "benchmarks" / "gpu.py"
sys.exit(subprocess.call([sys.executable, str(script), *sys.argv[1:]], env=env))
'''


def _files() -> list[Path]:
    """What git knows of the rooms, and the built kernels of this machine."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *ROOMS], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    kernels = sorted((ROOT / "simd_kernels" / "build").glob("*.so*"))
    if not kernels:
        raise SystemExit("the C kernels are missing; run `make kernels` first")
    return [path for path in paths if path.exists() or path.is_symlink()] + kernels


def _wheels(place: Path) -> None:
    for version in PYTHONS:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place),
             "--only-binary=:all:", "--python-version", version, "--platform",
             "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64", *WHEELS],
            check=True,
        )  # fmt: skip


def _llama() -> list[Path]:
    """llama.cpp's libraries that a GPU run loads, without its tools."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from gpu import llama_folder

    folder = llama_folder()
    if folder is None:
        raise SystemExit("llama.cpp's Vulkan package cannot be fetched; see benchmarks/gpu.py")
    names = ("libllama.", "libggml.", "libggml-base", "libggml-vulkan", "libggml-cpu-haswell",
             "libggml-cpu-x64")  # fmt: skip
    return [path for path in sorted(folder.iterdir()) if path.name.startswith(names)]


def _loader() -> Path | None:
    """Vulkan's loader of this machine."""
    if ctypes.util.find_library("vulkan") is None:
        return None
    listed = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, text=True)
    rows = [line.split(" => ") for line in listed.stdout.splitlines() if LOADER in line]
    return Path(rows[0][1]).resolve() if rows else None


def pack(out: Path) -> None:
    """Write the archive; SystemExit if something cannot be had or it is too large."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, tarfile.open(out, "w:xz") as archive:
        _wheels(Path(folder))
        for path in _files():
            archive.add(path, f"gpu-bundle/rushlight/{path.relative_to(ROOT)}", recursive=False)
        for wheel in sorted(Path(folder).iterdir()):
            archive.add(wheel, f"gpu-bundle/wheels/{wheel.name}")
        for path in _llama():
            archive.add(path.resolve(), f"gpu-bundle/llama/{path.name}")
        if (loader := _loader()) is not None:
            archive.add(loader, f"gpu-bundle/lib/{LOADER}")
        script = RUN.encode()
        entry = tarfile.TarInfo("gpu-bundle/run.py")
        entry.size, entry.mode = len(script), 0o755
        archive.addfile(entry, io.BytesIO(script))
    size = out.stat().st_size
    print(f"{out}: {size / 1e6:.1f} MB")
    if size > MOST:
        raise SystemExit(f"{out} has {size} bytes; at most {MOST} are meant to be carried")


if __name__ == "__main__":
    pack(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "gpu-bundle.tar.xz")

"""Packs the installed package (or the checkout) as the wheel for a site.

It holds the files of the published wheel. Packing them here takes a second, needs no build tool and
no network, and gives the same bytes for the same sources.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import tomllib
import zipfile
from pathlib import Path

import rushlight

ROOMS = ("core", "models", "wgsl_kernels", "simd_kernels", "web", "site")
# Suffixes of native libraries and of the kernels' sources.
_LEFT_OUT = {".so", ".dylib", ".dll", ".pyc", ".pyd", ".c", ".h", ".def", ".stamp"}


def package_files() -> dict[str, Path]:
    """The files of the pure wheel: name in the wheel -> file."""
    top = Path(rushlight.__file__).parent
    found = {f"rushlight/{name}": top / name for name in ("__init__.py", "py.typed")}
    for room in ROOMS:
        spec = importlib.util.find_spec(f"rushlight.{room}")
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(f"the package has no folder {room}/; install it again")
        folder = Path(next(iter(spec.submodule_search_locations)))
        for path in sorted(folder.rglob("*")):
            inner = path.relative_to(folder)
            # Of the types only client.d.ts is for page authors. The demo pages belong to a site,
            # not to every tab that loads the wheel.
            if path.name.endswith(".d.ts") and path.name != "client.d.ts":
                continue
            if room == "site" and path.suffix != ".py":
                continue
            if room == "simd_kernels" and path.name == "build.py":
                continue
            if path.is_file() and path.suffix not in _LEFT_OUT and "__pycache__" not in inner.parts:
                found[f"rushlight/{room}/{inner.as_posix()}"] = path
    return found


def checkout() -> Path | None:
    """The checkout that the package runs from, or None for an installed wheel."""
    root = Path(rushlight.__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "web").is_dir() else None


def _metadata() -> str:
    root = checkout()
    if root is None:
        return (importlib.metadata.distribution("rushlight").read_text("METADATA") or "").strip()
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {rushlight.__version__}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {need}" for need in project["dependencies"]),
    ]
    return "\n".join(lines)


def pack(folder: Path) -> Path:
    """Write rushlight-VERSION-py3-none-any.whl into `folder` and return its path."""
    info = f"rushlight-{rushlight.__version__}.dist-info"
    dest = folder / f"rushlight-{rushlight.__version__}-py3-none-any.whl"
    members = {name: path.read_bytes() for name, path in package_files().items()}
    members[f"{info}/METADATA"] = f"{_metadata()}\n".encode()
    tags = "Wheel-Version: 1.0\nGenerator: rushlight\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members[f"{info}/WHEEL"] = tags.encode()
    record = ""
    for name, content in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(dest, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            # A fixed date, so that the same sources give the same file.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return dest

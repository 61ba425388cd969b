"""Packs the installed package (or the checkout) as the pure wheel for a site.

It holds the files of the published wheel: in a checkout those that pyproject.toml tells hatchling
to pack, else those that the installed wheel lists. Packing them here takes a second, needs no build
tool and no network, and gives the same bytes for the same sources.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import re
import tomllib
import zipfile
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path
from typing import Any

import rushlight

MADE = {"build", "__pycache__"}  # folders that git ignores
LIBRARIES = (".so", ".dylib", ".dll")  # of platform wheels


def package_files() -> dict[str, Path]:
    """The files of the pure wheel: name in the wheel -> file."""
    root = checkout()
    if root is None:
        listed = importlib.metadata.distribution("rushlight").files or ()
        paths = {path.as_posix(): Path(str(path.locate())) for path in listed}
        return {
            name: path
            for name, path in paths.items()
            if name.startswith("rushlight/")
            and "__pycache__" not in path.parts
            and not name.endswith(LIBRARIES)
        }
    table = _project(root)["tool"]["hatch"]["build"]["targets"]["wheel"]
    sources = {f"{source}/": f"{place}/" for source, place in table["sources"].items()}
    inner = {path.relative_to(root).as_posix(): path for path in _chosen(root, table)}
    return {
        place + name.removeprefix(source): path
        for name, path in sorted(inner.items())
        for source, place in sources.items()
        if name.startswith(source)
    }


def _chosen(root: Path, table: dict[str, Any]) -> Iterator[Path]:
    """The files that hatchling takes for a target: what is included, and the artifacts."""
    patterns = [pattern + end for pattern in table["exclude"] for end in ("", "/*")]
    left_out = re.compile("|".join(translate(pattern) for pattern in patterns))
    for place in table["only-include"]:
        for path in [root / place] if (root / place).is_file() else (root / place).rglob("*"):
            inner = path.relative_to(root)
            made = not MADE.isdisjoint(inner.parts)
            if not made and not left_out.match(f"/{inner.as_posix()}") and path.is_file():
                yield path
    for pattern in table["artifacts"]:
        yield from root.glob(pattern.removeprefix("/"))


def _project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def checkout() -> Path | None:
    """The checkout that the package runs from, or None for an installed wheel."""
    root = Path(rushlight.__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "web").is_dir() else None


def _metadata() -> str:
    root = checkout()
    if root is None:
        return (importlib.metadata.distribution("rushlight").read_text("METADATA") or "").strip()
    project = _project(root)["project"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {rushlight.version.rushlight}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {need}" for need in project["dependencies"]),
    ]
    return "\n".join(lines)


def pack(folder: Path) -> Path:
    """Write rushlight-VERSION-py3-none-any.whl into `folder` and return its path."""
    info = f"rushlight-{rushlight.version.rushlight}.dist-info"
    dest = folder / f"rushlight-{rushlight.version.rushlight}-py3-none-any.whl"
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

"""Build hook: the JavaScript modules that web/assets.toml names, and the C kernels.

Wheels and sdists contain web/build and the kernels' WebAssembly modules, so an sdist builds its
wheel without a network. By default a wheel is pure. RUSHLIGHT_WHEEL=linux-x86_64 (or another target
of simd_kernels/build.py, or `here`) adds the native library of that platform. With
RUSHLIGHT_KERNELS=numpy nothing is compiled and zig is not installed. An editable install never
downloads or compiles; ``python hatch_build.py`` (which the Makefile runs) fills web/build.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent


def _load(root: Path, place: str) -> ModuleType:
    """A module or a folder by its path: the package cannot be imported before it is built."""
    path = root / place
    name = "_rushlight_" + "_".join(Path(place).with_suffix("").parts)
    inner = [str(path)] if path.is_dir() else None
    path = path / "__init__.py" if inner else path
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=inner)
    if spec is None or spec.loader is None:
        raise ImportError(f"hatch_build: cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _intact(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def keep_sections(path: Path, asset: dict[str, Any], member: dict[str, Any]) -> None:
    """Keep the used parts of a bundled script: the sections of `member`, and its `tail`.

    A bundler starts each section with a comment that names its source file. Raises ValueError for a
    section that the script does not have.
    """
    sections = dict(
        re.findall(
            r"^// (src/\S+)\n(.*?)(?=^// src/\S+\n|^export \{|\Z)",
            path.read_text(encoding="utf-8"),
            re.M | re.S,
        )
    )
    missing = [name for name in member["sections"] if name not in sections]
    if missing:
        raise ValueError(f"{asset['package']} {asset['version']}: no section {missing[0]}")
    told = f"// Parts of {asset['package']} {asset['version']} ({asset['licence']}), and an export."
    texts = [f"// {name}\n{sections[name]}" for name in member["sections"]]
    path.write_text(f"{told}\n\n{''.join(texts)}{member['tail']}\n", encoding="utf-8")


def wheel_assets(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """The entries of web/assets.toml whose files go into web/build, by name."""
    table = tomllib.loads((root / "web" / "assets.toml").read_text(encoding="utf-8"))
    return {name: asset for name, asset in table.items() if asset["into"] == "wheel"}


def fill_web_build(root: Path = ROOT) -> list[Path]:
    """Make web/build hold exactly the files of web/assets.toml; return their paths.

    A file with the right SHA-256 is kept, so a complete folder needs no network. Any other file is
    removed, because the whole folder is shipped. Raises the fetch module's errors if a download
    fails, ValueError if a downloaded file has the wrong hash.
    """
    build = root / "web" / "build"
    build.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, asset in wheel_assets(root).items():
        members = [(m["from"], build / m["to"], m["sha256"]) for m in asset["members"]]
        paths += [dest for _, dest, _ in members]
        if all(_intact(dest, sha256) for _, dest, sha256 in members):
            continue
        if asset["kind"] != "npm":
            raise ValueError(
                f"web/assets.toml: {name}: kind {asset['kind']!r} is not supported for a wheel; "
                "supported: 'npm'"
            )
        print(f"fetching {asset['package']} {asset['version']}", file=sys.stderr)
        _load(root, "core/io/hub/fetch").npm_members(
            asset["package"],
            asset["version"],
            asset["integrity"],
            {member: dest for member, dest, _ in members},
        )
        for member in asset["members"]:
            if "sections" in member:
                keep_sections(build / member["to"], asset, member)
        for member, dest, sha256 in members:
            if not _intact(dest, sha256):
                raise ValueError(f"{asset['package']} {asset['version']}: {member}: wrong hash")
    for stray in set(build.iterdir()) - set(paths):
        stray.unlink()
    return paths


def fill_kernels(root: Path = ROOT) -> None:
    """Build the WebAssembly modules into simd_kernels/build, unless they are up to date."""
    builder = _load(root, "simd_kernels/build.py")
    builder.build_missing(builder.TAB)


def with_library(root: Path, target: str, data: dict[str, Any]) -> None:
    """Add the native library of `target` to the wheel that hatchling builds."""
    builder = _load(root, "simd_kernels/build.py")
    name = builder.this_machine() if target == "here" else target
    if name not in builder.TARGETS or not builder.TARGETS[name].tag:
        known = ", ".join(n for n, t in builder.TARGETS.items() if t.tag)
        raise ValueError(f"RUSHLIGHT_WHEEL: platform {target} is not supported; supported: {known}")
    path = builder.library(name)
    data["force_include"][str(path)] = f"rushlight/simd_kernels/build/{path.name}"
    data["pure_python"], data["tag"] = False, f"py3-none-{builder.TARGETS[name].tag}"


if __name__ == "__main__":  # run by hand, which does not need hatchling
    for path in fill_web_build():
        print(path.relative_to(ROOT))
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    def _compiles() -> bool:
        return os.environ.get("RUSHLIGHT_KERNELS") != "numpy"

    def _for_editable() -> bool:
        """Whether pip asks for the requirements of an editable install; hatchling does not say."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_name != "get_requires_for_build_editable":
            frame = frame.f_back
        return frame is not None

    class AssetHook(BuildHookInterface[Any]):
        """Fill web/build before hatchling collects the files of a wheel or an sdist."""

        PLUGIN_NAME = "custom"

        def dependencies(self) -> list[str]:
            """Called by hatchling: zig, if kernels must be compiled."""
            builder = _load(Path(self.root), "simd_kernels/build.py")
            idle = builder.current(builder.TAB) and not os.environ.get("RUSHLIGHT_WHEEL")
            return [] if idle or not _compiles() or _for_editable() else [builder.ZIG]

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called by hatchling; `version` is "editable" for an editable install."""
            if version == "editable":
                return
            root = Path(self.root)
            fill_web_build(root)
            if _compiles():
                fill_kernels(root)
            if self.target_name == "wheel" and (target := os.environ.get("RUSHLIGHT_WHEEL")):
                with_library(root, target, build_data)

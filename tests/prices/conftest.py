"""What the tests of prices share: a copy of the checkout that is edited, and what was edited."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MADE = frozenset({"__pycache__", ".hypothesis"})  # folders that running Python makes
# What a checkout has beside its files: the C kernels, and the JavaScript that the wheel ships.
KERNELS, SCRIPTS = "simd_kernels/build", "web/build"


class Tree:
    """A copy of this checkout as it stands, uncommitted work too, its links kept.

    built: the folders of `KERNELS` and `SCRIPTS` that it has.
    """

    def __init__(self, place: Path, *built: str) -> None:
        self.place = place
        for name in _known():
            self._copy(name)
        # With its bytecode, which is compiled anew where a file is edited.
        for parent in {Path(name).parent for name in _known() if name.endswith(".py")}:
            for path in (ROOT / parent / "__pycache__").glob("*.pyc"):
                with contextlib.suppress(FileNotFoundError):  # another worker replaced it
                    self._copy(path.relative_to(ROOT).as_posix())
        for folder in built:
            for path in (ROOT / folder).rglob("*"):  # also a library for a platform wheel
                if path.is_file():
                    self._copy(path.relative_to(ROOT).as_posix())
        self.before = self._files()

    def _copy(self, name: str) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, path, follow_symlinks=False)

    def _files(self) -> dict[str, str]:
        found = {}
        for folder, folders, names in os.walk(self.place):
            links = [name for name in folders if Path(folder, name).is_symlink()]
            folders[:] = [name for name in folders if name not in MADE]
            for path in (Path(folder, name) for name in (*names, *links)):
                link = path.is_symlink()
                data = os.fsencode(path.readlink()) if link else path.read_bytes()
                found[path.relative_to(self.place).as_posix()] = hashlib.sha256(data).hexdigest()
        return found

    def add(self, name: str, lines: str, *, after: str = "", before: str = "") -> None:
        """Put `lines` at the line that begins with `after` or `before`, or make the file."""
        path = self.place / name
        if not after and not before:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:  # no file that is there changes
                file.write(lines)
            return
        old = path.read_text(encoding="utf-8").splitlines(keepends=True)
        (at,) = [i for i, line in enumerate(old) if line.startswith(after or before)]
        at += bool(after)
        path.write_text("".join([*old[:at], lines, *old[at:]]), encoding="utf-8")

    def append(self, name: str, lines: str) -> None:
        """Put `lines` at the end of a file."""
        path = self.place / name
        path.write_text(path.read_text(encoding="utf-8") + lines, encoding="utf-8")

    def edited(self) -> set[str]:
        """The files that are new, gone or other than at the start."""
        after = self._files()
        names = self.before.keys() | after.keys()
        return {name for name in names if self.before.get(name) != after.get(name)}

    def python(
        self, *args: str, kernels: str = "", env: Mapping[str, str] | None = None, ok: bool = True
    ) -> str:
        """What Python prints in the copy, whose package it imports.

        kernels: as RUSHLIGHT_KERNELS. It must succeed, or fail where not `ok`.
        """
        given = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        given |= {"PYTHONPATH": str(self.place / "src"), "RUSHLIGHT_KERNELS": kernels}
        done = subprocess.run(
            [sys.executable, *args],
            cwd=self.place,
            env=given | dict(env or {}),
            capture_output=True,
            text=True,
            timeout=1000,
        )
        assert (done.returncode == 0) is ok, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    def pytest(
        self, *args: str, kernels: str = "", env: Mapping[str, str] | None = None, ok: bool = True
    ) -> str:
        """What pytest prints of the copy's tests that `args` name."""
        always = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
        return self.python(*always, *args, kernels=kernels, env=env, ok=ok)


def _known() -> list[str]:
    """The files and links of the checkout that git knows or would add."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    given = [*command, "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(given, check=True, capture_output=True, text=True).stdout
    names = sorted({name for name in found.split("\0") if name})
    return [name for name in names if (ROOT / name).is_symlink() or (ROOT / name).is_file()]


@pytest.fixture(scope="session")
def make_tree(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tree]:
    """A function that makes a new copy of the checkout, with the built folders that it names."""
    return lambda *built: Tree(tmp_path_factory.mktemp("price") / "tree", *built)


@pytest.fixture
def tree(make_tree: Callable[..., Tree]) -> Tree:
    """A new copy of the checkout, with the C kernels and the scripts that were built."""
    return make_tree(KERNELS, SCRIPTS)

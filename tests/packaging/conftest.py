"""What the packaging tests share: a clone of this checkout, and the distributions built of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

Clone = Callable[..., Path]


def _git(*args: str) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *args, "-z"], check=True, capture_output=True, text=True
    )
    return [name for name in done.stdout.split("\0") if name]


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of this checkout."""
    return ROOT


@pytest.fixture(scope="session")
def clone() -> Clone:
    """A function that clones this checkout to a folder, as it stands, uncommitted work too."""

    def make(target: Path, *options: str) -> Path:
        subprocess.run(
            ["git", "clone", "--quiet", "--depth=1", *options, ROOT.as_uri(), str(target)],
            check=True,
        )
        for name in _git("ls-files", "--deleted"):
            (target / name).unlink()
        for name in _git("ls-files", "--modified", "--others", "--exclude-standard"):
            if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target / name)
        return target

    return make


class Built(NamedTuple):
    """Distributions of this checkout."""

    wheel: Path  # built from the tree
    sdist: Path
    again: Path  # the wheel built from the sdist


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wheel, the sdist and the sdist's wheel, built with the hatchling of this environment."""

    def build(source: Path, kind: str) -> Path:
        out = tmp_path_factory.mktemp(kind)
        subprocess.run(
            [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "-o", out, source],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (made,) = out.iterdir()
        return made

    sdist = build(ROOT, "sdist")
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        # Python has it from 3.11.4 on.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(unpacked)
    return Built(build(ROOT, "wheel"), sdist, build(next(unpacked.iterdir()), "wheel"))

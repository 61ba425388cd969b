"""A checkout whose git made no symlinks, as on Windows: it still imports and passes its tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("packaging")]


@pytest.fixture(scope="module")
def plain(root: Path, clone: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which the links are text files that hold their targets."""
    target: Path = clone(
        tmp_path_factory.mktemp("plain") / "rushlight", "-c", "core.symlinks=false"
    )
    link = target / "src" / "rushlight" / "core"
    assert not link.is_symlink() and link.read_text() == "../../core"
    # What `python hatch_build.py` would fetch.
    shutil.copytree(root / "web" / "build", target / "web" / "build")
    return target


def _run(plain: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHONPATH"))}
    return subprocess.run(
        [sys.executable, *args],
        cwd=plain,
        env={
            **env,
            "PYTHONPATH": str(plain / "src"),
            "RUSHLIGHT_TEST_DEVICES": "cpu",
            "RUSHLIGHT_KERNELS": "numpy",
        },
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_it_imports_from_the_real_folders(plain: Path) -> None:
    done = _run(
        plain,
        "-c",
        "import rushlight as rl, rushlight.core.tensor.tensor as t, rushlight.models as m\n"
        "print(rl.__file__, t.__file__, m.__file__, sep='\\n')\n"
        "for device in ('cpu', 'webgpu'):  # whose shaders are files, too\n"
        "    a, b = rl.ones(2, 3, device=device), rl.ones(3, 2, device=device)\n"
        "    assert (a @ b).tolist() == [[3, 3], [3, 3]]",
    )
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first == str(plain / "src" / "rushlight" / "__init__.py")
    inside = ("core/tensor/tensor.py", "models/__init__.py")
    assert others == [str(plain / path) for path in inside]


def test_its_modules_exist_once_and_its_ops_work(plain: Path) -> None:
    """What the house says of modules and rooms, and every op's values without C kernels.

    What it says of texts is the same here; `make pytest-numpy` has the ops' other tests.
    """
    done = _run(
        plain,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not native",
        "-k",
        "exists_once or bare_name or links or complete or matches_its_reference",
        "tests/test_house.py",
        "tests/core/ops/test_registry.py",
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout

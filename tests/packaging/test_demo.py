"""`make demo` from a fresh clone, as somebody with an empty home and no root would run it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.io.hub.fetch import cache_dir

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("demo")]


def _pip_cache() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def stranger(clone: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A fresh clone and an environment with an empty home; downloads made before are kept."""
    target: Path = clone(tmp_path_factory.mktemp("demo") / "rushlight")
    home = tmp_path_factory.mktemp("home")
    keep = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PYTEST_", "PYTHON", "VIRTUAL_ENV", "RUSHLIGHT_", "XDG_", "MAKE"))
    }
    cache = {"PIP_CACHE_DIR": _pip_cache(), "RUSHLIGHT_CACHE": str(cache_dir())}
    # The environment that runs this test must not be the one that the demo finds.
    path = [p for p in keep["PATH"].split(os.pathsep) if Path(p).parent != Path(sys.prefix)]
    return target, {**keep, **cache, "HOME": str(home), "PATH": os.pathsep.join(path)}


@contextmanager
def _demo(stranger: tuple[Path, dict[str, str]], seconds: float) -> Iterator[tuple[str, str]]:
    """Run `make demo` until it prints an address; give that and all it printed before."""
    target, env = stranger
    with subprocess.Popen(
        ["make", "demo", "PORT=0"],
        cwd=target,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        # A run that hangs is ended at the deadline: its output closes, and the loop below with it.
        alarm = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
        alarm.start()
        said, address = "", None
        try:
            for line in process.stdout:
                said += line
                if address := re.search(r"http://127\.0\.0\.1:\d+/\S*", line):
                    break
            assert address, f"no address was printed:\n{said}"
            yield address.group(), said
        finally:
            alarm.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            process.stdout.read()


def _get(url: str) -> tuple[int, bytes]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.status, answer.read()


def _made(target: Path) -> dict[Path, int]:
    """What the demo installs, fetches and compiles: each file with the time it was written."""
    folders = [target / name for name in (".venv", "web/build", "simd_kernels/build")]
    return {
        path: path.stat().st_mtime_ns
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_a_fresh_clone_serves_the_page_and_the_next_run_has_nothing_to_make(stranger: Any) -> None:
    target, _ = stranger
    with _demo(stranger, 840) as (address, said):
        status, page = _get(address)
        assert status == 200 and b"Rushlight" in page
        status, config = _get(f"{address}models/all-minilm-l6-v2/config.json")
        assert status == 200 and b"BertModel" in config
        status, worker = _get(f"{address}rushlight/client.js")
        assert status == 200 and b"createRushlight" in worker
    assert "Traceback" not in said
    assert not (target / "node_modules").exists(), "the demo needs no Node"
    assert not (target / ".venv" / "node").exists()

    made = _made(target)
    with _demo(stranger, 120) as (address, said):
        assert _get(address)[0] == 200
    assert "Installing" not in said
    assert _made(target) == made, "something was installed, fetched or compiled again"


def test_a_python_without_venv_is_told_in_one_line(clone: Any, tmp_path: Path) -> None:
    target = clone(tmp_path / "rushlight")
    # Debian without python3-venv: the module venv is there, ensurepip is not.
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "ensurepip.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'ensurepip'\")\n", encoding="utf-8"
    )
    done = subprocess.run(
        ["make", "--silent", "demo", f"PYTHON={sys.executable}"],
        cwd=target,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "bare")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = [s for s in (done.stdout + done.stderr).splitlines() if not s.startswith("make")]
    assert done.returncode != 0
    assert said == [
        "python3-venv is missing; install it (Debian: apt-get install python3-venv) "
        "and run make again"
    ]
    assert not (target / ".venv").exists()


def test_an_old_python_is_told_in_one_line(clone: Any, tmp_path: Path) -> None:
    target = clone(tmp_path / "rushlight")
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")  # what the version check would give
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "--silent", "demo", f"PYTHON={old}"],
        cwd=target,
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = [s for s in (done.stdout + done.stderr).splitlines() if not s.startswith("make")]
    assert done.returncode != 0
    assert len(said) == 1 and said[0].startswith("Python 3.11 or newer is needed")


def test_the_node_on_the_path_is_used(root: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node on PATH")
    version = subprocess.run([node, "--version"], check=True, capture_output=True, text=True)
    assert int(version.stdout.lstrip("v").split(".")[0]) >= 20
    found = subprocess.run(
        [root / "tools" / "node.sh"], check=True, capture_output=True, text=True, timeout=300
    )
    assert found.stdout.strip() == str(Path(node).parent)


def test_a_node_from_pypi_works_where_there_is_none(clone: Any, tmp_path: Path) -> None:
    target = clone(tmp_path / "rushlight")
    # An environment of its own that borrows pip from this one.
    venv.create(target / ".venv", with_pip=False, symlinks=True)
    (packages,) = (target / ".venv").glob("lib/python*/site-packages")
    (packages / "pip.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    # A PATH on which there is no Node.
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("sh", "dirname", "mkdir", "ln", "chmod"):
        (bare / name).symlink_to(str(shutil.which(name)))
    env = {**os.environ, "PATH": str(bare)}
    done = subprocess.run(
        [target / "tools" / "node.sh"], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder == target / ".venv" / "node"
    for tool, least in (("node", 20), ("npm", 9)):
        version = subprocess.run(
            [folder / tool, "--version"],
            env=env,
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        ).stdout
        assert int(version.strip().lstrip("v").split(".")[0]) >= least

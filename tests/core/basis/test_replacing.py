"""Files that appear whole: several writers at once, full disks, killed processes, odd targets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.files import replacing as replacing_module
from rushlight.core.basis.files.replacing import move_files, replacing, unfinished_folder

pytestmark = pytest.mark.native  # processes, signals and limits

NAMES = ["a.pt", "a.npz", "a.npy", "a.gguf", "a.safetensors", "old.pt"]
MANY = 1 << 16


def save(name: str, path: Path, value: float) -> None:
    """Save numbers that are all `value`."""
    numbers = rl.full((MANY,), value)
    more: Any = {"_use_new_zipfile_serialization": False} if name == "old.pt" else {}
    rl.save(numbers if name == "a.npy" else {"w": numbers}, path, **more)


def check(path: Path) -> float:
    """The number that all of a file's numbers are."""
    found = rl.load(path)
    numbers = (found if path.suffix == ".npy" else found["w"]).numpy()
    assert len(numbers) == MANY and (numbers == numbers[0]).all()
    return float(numbers[0])


def program(body: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process that runs `body` after its imports; `save` is that of this file."""
    code = (
        "import resource, sys, signal, time\nsys.path.insert(0, sys.argv[1])\n"
        "import rushlight as rl\nfrom pathlib import Path\nfrom test_replacing import save\n" + body
    )
    here = str(Path(__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-c", code, here, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    for name in NAMES:
        save(name, tmp_path / name, 1)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    body = (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "for name in sys.argv[3:]:\n"
        "    try:\n        save(name, Path(sys.argv[2]) / name, 2)\n"
        "    except OSError as error:\n        print(type(error).__name__)\n"
    )
    out, error = program(body, str(tmp_path), *NAMES).communicate()
    assert out.split() == [b"OSError"] * len(NAMES), error.decode()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["a.pt", "a.npz", "a.gguf"])
def test_a_killed_process_keeps_the_old_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    save(name, path, 1)
    body = (
        "from rushlight.core.tensor.tensor import Tensor\n"
        "def stop(*_):\n    print('here', flush=True)\n    time.sleep(100)\n"
        "opened = Path.open\n"
        "def slowly(place, *args, **more):\n"
        "    file = opened(place, *args, **more)\n"
        "    if place.name.endswith('.part'):\n        file.write(b'begun')\n        stop()\n"
        "    return file\n"
        "Path.open = slowly\nsave(sys.argv[2], Path(sys.argv[3]), 2)\n"
    )
    child = program(body, name, str(path))
    assert child.stdout is not None and child.stdout.readline().strip() == b"here"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert check(path) == 1 and len(list(tmp_path.iterdir())) == 2
    save(name, path, 3)  # which removes what the killed one left
    assert check(path) == 3 and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors", "a.gguf"])
def test_processes_and_threads_save_one_path(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    save(name, path, 0)
    body = "for i in range(12):\n    save(sys.argv[2], Path(sys.argv[3]), float(sys.argv[4]) + i)\n"
    children = [program(body, name, str(path), str(n)) for n in (100, 200)]

    def several(first: int) -> None:
        for i in range(12):
            save(name, path, first + i)

    threads = [threading.Thread(target=several, args=(first,)) for first in (300, 400)]
    for thread in threads:
        thread.start()
    seen = set()
    while any(c.poll() is None for c in children) or any(t.is_alive() for t in threads):
        seen.add(check(path))
    for child in children:
        error = child.communicate()[1]
        assert child.returncode == 0, error.decode()
    for thread in threads:
        thread.join()
    seen.add(check(path))
    assert len(seen) > 1 and seen <= {0, *(n + i for n in (100, 200, 300, 400) for i in range(12))}
    assert list(tmp_path.iterdir()) == [path]


def test_views_of_a_replaced_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save("a.pt", path, 1)
    old = rl.load(path)["w"]
    save("a.pt", path, 2)
    assert old.sum().item() == MANY and check(path) == 2


def test_unfinished_files_of_others_stay(tmp_path: Path) -> None:
    """A file that another process is writing is left alone, and so are files of other names."""
    path = tmp_path / "a.bin"
    others = [
        tmp_path / "a.bin.part",
        tmp_path / "b.bin.1-00000000.part",
        tmp_path / "a.bin.1.part",
    ]
    for other in others:
        other.write_bytes(b"")
    abandoned = tmp_path / "a.bin.1-0123abcd.part"
    abandoned.write_bytes(b"x")
    (tmp_path / "a.bin.2-0123abcd.part").mkdir()
    with replacing(path) as first:
        first.write(b"first")
        with replacing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_long_names_and_odd_targets(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 120 + ".pt")
    rl.save({"w": rl.ones(2)}, path)
    assert rl.load(path)["w"].tolist() == [1, 1]
    os.mkfifo(tmp_path / "pipe.pt")
    began = time.monotonic()
    with pytest.raises(OSError, match="pipe.pt is not a regular file; name one"):
        rl.save({"w": rl.ones(2)}, tmp_path / "pipe.pt")
    assert time.monotonic() - began < 60  # it did not wait for a reader
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a") as file:
        file.write(b"x" * (1 // 0))
    assert not (tmp_path / "a").exists()
    (tmp_path / "read_only").write_bytes(b"old")
    (tmp_path / "read_only").chmod(0o444)
    with replacing(tmp_path / "read_only") as file:
        file.write(b"new")
    assert (tmp_path / "read_only").stat().st_mode & 0o777 == 0o444


def test_folders_are_filled_one_after_another(tmp_path: Path) -> None:
    target = tmp_path / "model"
    names = [f"{i}.bin" for i in range(20)]

    def fill(value: bytes) -> None:
        for _ in range(10):
            with unfinished_folder(target) as folder:
                for name in names:
                    (folder / name).write_bytes(value * 1000)
                move_files(folder, target, names, {"stale.bin"})

    threads = [threading.Thread(target=fill, args=(value,)) for value in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(target / name).read_bytes() for name in names}) == 1
    assert sorted(p.name for p in target.iterdir()) == sorted(names)
    assert list(tmp_path.iterdir()) == [target]
    (target / "stale.bin").write_bytes(b"")
    fill(b"d")
    assert not (target / "stale.bin").exists()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_another_save_removes_is_begun_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another save locks the new file or folder before its owner does, and then removes it."""
    target = tmp_path / "one"
    took = replacing_module._lock
    removers: list[threading.Thread] = []

    def late(*args: Any, **options: Any) -> bool:
        if not removers:
            [place] = tmp_path.iterdir()
            other = os.open(place, os.O_RDONLY)
            assert took(other)

            def remove() -> None:
                time.sleep(0.05)
                place.rmdir() if place.is_dir() else place.unlink()
                os.close(other)

            removers.append(threading.Thread(target=remove))
            removers[0].start()
        return took(*args, **options)

    monkeypatch.setattr(replacing_module, "_lock", late)
    if kind == "file":
        with replacing(target) as file:
            removers[0].join()
            file.write(b"new")
        assert target.read_bytes() == b"new"
    else:
        with unfinished_folder(target) as folder:
            removers[0].join()
            (folder / "a.bin").write_bytes(b"new")
            move_files(folder, target, ["a.bin"], ())
        assert (target / "a.bin").read_bytes() == b"new"
    removers[0].join()
    assert list(tmp_path.iterdir()) == [target]


def test_models_are_saved_by_threads(tmp_path: Path) -> None:
    """Adapters, tables of numbers and traces too take names of their own."""
    from rushlight.core.io.weights.imatrix import write_imatrix

    sums = {"blk.0.ffn_down.weight": np.ones((1, 8), np.float32)}
    threads = [
        threading.Thread(
            target=lambda: write_imatrix(
                tmp_path / "i.gguf", sums, dict.fromkeys(sums, 1), 1, overwrite=True
            )
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.name for p in tmp_path.iterdir()] == ["i.gguf"]

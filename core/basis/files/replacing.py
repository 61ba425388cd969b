"""Files that appear whole: written beside their place under a name of their own, then moved there.

A save that fails, or is killed, leaves the old file as it was. Several processes and threads may
save one path: the last to end has it.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LONGEST = 200  # bytes of a name in the name of its unfinished file


def _stem(target: Path) -> str:
    return os.fsencode(target.name)[:_LONGEST].decode("utf-8", "ignore")


def _lock(file: Any, wait: bool = False) -> bool:
    """Take the lock that tells an unfinished file from one that a killed process left.

    wait: until another has let it go. False where it is another's, or the file system has no locks.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _remove_abandoned(target: Path) -> None:
    """Remove unfinished files and folders of this path that no process writes any more."""
    if fcntl is None:
        return
    from shutil import rmtree  # imported where it is used: this module is imported at every start

    ours = re.compile(re.escape(_stem(target)) + r"\.\d+-[0-9a-f]{8}\.part")
    with contextlib.suppress(OSError):
        for name in os.listdir(target.parent):
            if not ours.fullmatch(name):
                continue
            place = target.parent / name
            with contextlib.suppress(OSError), _held(place) as free:
                if free:
                    rmtree(place) if place.is_dir() else place.unlink()


@contextlib.contextmanager
def _held(place: Path, wait: bool = False) -> Iterator[bool]:
    """Hold the lock of a file or folder; whether it was free. wait: until it is."""
    if fcntl is None:
        yield True
        return
    handle = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        yield _lock(handle, wait) or wait
    finally:
        os.close(handle)


def _unfinished(target: Path) -> Path:
    name = f"{_stem(target)}.{os.getpid()}-{os.urandom(4).hex()}.part"
    return target.parent / name


def _begin(target: Path) -> tuple[Path, BinaryIO]:
    """A new file beside `target`, held by a lock."""
    while True:
        place = _unfinished(target)
        file = place.open("xb")  # the caller closes it
        # Another save may have locked it first, to remove it as an abandoned one: once that has let
        # go of the lock, the file is gone.
        _lock(file, wait=True)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), place.stat()):
                return place, file
        file.close()


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, sync: bool = False) -> Iterator[BinaryIO]:
    """A file open for writing, which takes the place of `path` at the end of the block.

    Where the block raises, or the process is killed, `path` is what it was before. A link is
    followed, the old file's mode is kept, and a device such as /dev/null is written to. sync: the
    disk has the bytes before the file appears. Raises IsADirectoryError for a folder, OSError for a
    pipe, a missing folder and a full disk.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except OSError:
        mode = 0
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; name a file")
    if stat.S_ISCHR(mode):
        with target.open("wb") as device:
            yield device
        return
    if mode and not stat.S_ISREG(mode):
        raise OSError(f"{os.fspath(path)} is not a regular file; name one that can be replaced")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{os.fspath(path)}: the folder {target.parent} does not exist")
    _remove_abandoned(target)
    place, file = _begin(target)
    try:
        with file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
            if mode:
                with contextlib.suppress(OSError):
                    place.chmod(stat.S_IMODE(mode))
            if fcntl is not None:  # still locked, so that nobody takes it for an abandoned one
                place.replace(target)
        if fcntl is None:  # Windows moves no file that is open
            place.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        place.unlink(missing_ok=True)
        raise


def write_whole(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a small file by `replacing`; text as UTF-8."""
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def unfinished_folder(target: Path) -> Iterator[Path]:
    """A new folder beside `target`, for files that are moved from it; it is removed at the end."""
    from shutil import rmtree

    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    while True:
        place = _unfinished(target)
        place.mkdir()
        with contextlib.ExitStack() as locks:
            # Another save may take it for an abandoned one before it is locked (see `_begin`).
            with contextlib.suppress(FileNotFoundError):
                locks.enter_context(_held(place, wait=True))
            if not place.is_dir():
                continue
            try:
                yield place
            finally:
                rmtree(place, ignore_errors=True)
            return


def move_files(folder: Path, target: Path, names: Iterable[str], old: Container[str]) -> None:
    """Move files from an unfinished folder into `target`; a new folder appears whole.

    names: those to move. old: files of `target` that belong to what is replaced. Two processes that
    fill one folder do so one after another.
    """
    if not target.exists():
        with contextlib.suppress(OSError):  # another process made it meanwhile
            folder.rename(target)
            return
    with _held(target, wait=True):
        wanted = set(names)
        for name in os.listdir(target):
            if name in old and name not in wanted:
                (target / name).unlink()
        for name in wanted:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).replace(target / name)

"""Data sets that pages train on, cut from what a package of the system has, with a manifest.

    python -m rushlight.site.builder.datasets

fetches the package with `apt-get download`, which needs no root, where it is not installed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.hub.fetch import cache_dir

# Where Debian's package dataset-fashion-mnist has its files.
FASHION = Path("/usr/share/datasets/fashion-mnist")
# Rows of each file, and bits of a pixel: with them, all together have less than 6 MB. Pictures to
# learn from are worth more than fine shades: with 4 bits 26,000 take the room of 12,000, and the
# CNNs of the page Train are right about 2 in 100 more.
ROWS = {"train": 26_000, "t10k": 1_000}
BITS = {"train": 4, "t10k": 8}
_MOST = 6_000_000
_PLAIN = str.maketrans(" :", "--", "{}',")
_LARGEST = 1 << 26  # bytes of a file of the package


def write(name: str, dest: Path, source: Path | None = None) -> None:
    """Write the files of a data set into `dest`, and their manifest.json.

    The manifest has "files" with path, size and sha256: none where the package is missing.
    source: the folder of its files. KeyError for another name than "fashion-mnist", FormatError for
    a file that is no idx file.
    """
    place = _installed({"fashion-mnist": FASHION}[name]) if source is None else source
    if source is None and _complete(place):
        # Packing takes seconds, and gives the same bytes at every build.
        packed = cache_dir() / "datasets" / f"{name}-{ROWS}-{BITS}".translate(_PLAIN)
        if not (packed / "manifest.json").is_file():
            write(name, packed, place)
        shutil.copytree(packed, dest, dirs_exist_ok=True)
        return
    dest.mkdir(parents=True, exist_ok=True)
    files: list[dict[str, Any]] = []
    for split, rows in ROWS.items():
        for kind in ("images-idx3", "labels-idx1"):
            file = place / f"{split}-{kind}-ubyte.gz"
            if not file.is_file():
                continue
            content = _cut(file, rows, BITS[split])
            (dest / file.name).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            files.append({"path": file.name, "size": len(content), "sha256": digest})
    complete = len(files) == 4
    if not complete or sum(f["size"] for f in files) > _MOST:
        for row in files:
            (dest / row["path"]).unlink()
        if complete:
            raise FormatError(f"{place}: the cut files have more than {_MOST} bytes")
        files = []
    about = {"files": files, "package": f"dataset-{name}"}
    (dest / "manifest.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _fetched() -> Path:
    """Where the files of a package are that was fetched and not installed."""
    return cache_dir() / "datasets" / FASHION.name


def _installed(place: Path) -> Path:
    return place if place.is_dir() else _fetched()


def fetch() -> Path | None:
    """The folder of Fashion-MNIST's files, fetched first if need be; None where apt cannot.

    apt checks the package against the signed list of the distribution. Raises FormatError for a
    package that is no archive of Debian's.
    """
    place = _installed(FASHION)
    if _complete(place):
        return place
    if shutil.which("apt-get") is None:
        return None
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        command = ["apt-get", "download", f"dataset-{FASHION.name}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        package = next(Path(folder).glob("*.deb"), None)
        if done.returncode or package is None:
            return None
        extracted = Path(folder) / "files"
        extracted.mkdir()
        for name, content in _members(package):
            (extracted / name).write_bytes(content)
        if not _complete(extracted):
            raise FormatError(f"{package.name} has not the four files of Fashion-MNIST")
        shutil.rmtree(place, ignore_errors=True)
        extracted.rename(place)
    return place


def _complete(place: Path) -> bool:
    kinds = ("images-idx3", "labels-idx1")
    return all((place / f"{split}-{kind}-ubyte.gz").is_file() for split in ROWS for kind in kinds)


def _members(package: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the data files in a .deb: an `ar` archive with a tar in it (deb(5))."""
    content = package.read_bytes()
    if not content.startswith(b"!<arch>\n"):
        raise FormatError(f"{package.name} is no package of Debian's")
    offset = 8
    while offset + 60 <= len(content):
        name, size = (
            content[offset : offset + 16].decode("latin-1").strip(" /"),
            content[offset + 48 : offset + 58],
        )
        if not size.strip().isdigit():
            raise FormatError(f"{package.name}: the header at {offset} is damaged")
        length = int(size)
        if name.startswith("data.tar"):
            with tarfile.open(
                fileobj=io.BytesIO(content[offset + 60 : offset + 60 + length])
            ) as archive:
                for member in archive:
                    inner = Path(member.name)
                    file = archive.extractfile(member) if member.isfile() else None
                    if file is not None and inner.parent.name == FASHION.name:
                        yield inner.name, file.read(_LARGEST)
        offset += 60 + length + length % 2


def _cut(path: Path, rows: int, bits: int) -> bytes:
    """The idx file with its first rows alone, compressed; the same bytes at every build.

    Of pictures the pixels have `bits` bits, which are repeated, so that black and white stay.
    """
    with gzip.open(path) as file:
        head = file.read(4)
        if len(head) < 4 or head[:3] != b"\0\0\x08" or not 1 <= head[3] <= 3:
            raise FormatError(f"{path} is no idx file of bytes")
        sizes = file.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise FormatError(f"{path} ends in its header")
        there, *inner = struct.unpack(f">{head[3]}I", sizes)
        count = min(rows, there)
        row = 1
        for size in inner:
            row *= size
        if row > 1 << 16:
            raise FormatError(f"{path}: a row has {row} bytes; {1 << 16} are allowed")
        content = file.read(count * row)
    if len(content) < count * row:
        raise FormatError(f"{path} ends before row {count}")
    if inner:
        content = content.translate(
            bytes((i >> 8 - bits << 8 - bits) | i >> bits for i in range(256))
        )
    return gzip.compress(head + struct.pack(f">{head[3]}I", count, *inner) + content, 9, mtime=0)


if __name__ == "__main__":
    found = fetch()
    print(f"Fashion-MNIST: {found or 'not fetched, as apt has no such package here'}")

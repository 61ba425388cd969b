"""Data sets that pages train on, cut from what a package of the system has, with a manifest."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import FormatError

# Where Debian's package dataset-fashion-mnist has its files.
FASHION = Path("/usr/share/datasets/fashion-mnist")
# Rows of each file, and bits of a pixel: with them, all together have less than 6 MB. Pictures to
# learn from are worth more than fine shades: with 4 bits 26,000 take the room of 12,000, and the
# CNNs of the page Train are right about 2 in 100 more.
ROWS = {"train": 26_000, "t10k": 1_000}
BITS = {"train": 4, "t10k": 8}
_MOST = 6_000_000


def write(name: str, dest: Path, source: Path | None = None) -> None:
    """Write the files of a data set into `dest`, and their manifest.json.

    The manifest has "files" with path, size and sha256: none where the package is missing.
    source: the folder of its files. KeyError for another name than "fashion-mnist", FormatError for
    a file that is no idx file.
    """
    place = {"fashion-mnist": FASHION}[name] if source is None else source
    dest.mkdir(parents=True, exist_ok=True)
    files: list[dict[str, Any]] = []
    for part, rows in ROWS.items():
        for kind in ("images-idx3", "labels-idx1"):
            file = place / f"{part}-{kind}-ubyte.gz"
            if not file.is_file():
                continue
            content = _cut(file, rows, BITS[part])
            (dest / file.name).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            files.append({"path": file.name, "size": len(content), "sha256": digest})
    complete = len(files) == 4
    if not complete or sum(f["size"] for f in files) > _MOST:
        for one in files:
            (dest / one["path"]).unlink()
        if complete:
            raise FormatError(f"{place}: the cut files have more than {_MOST} bytes")
        files = []
    about = {"files": files, "package": f"dataset-{name}"}
    (dest / "manifest.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


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

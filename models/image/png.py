"""PNG files with texts in them, such as a picture's settings: written and read without Pillow."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.files.replacing import replacing

_BEGIN = b"\x89PNG\r\n\x1a\n"
_TRUECOLOR = 2
_MOST = 1 << 20  # bytes of a text


def encode_png(pixels: npt.NDArray[np.uint8], texts: Mapping[str, str] | None = None) -> bytes:
    """A PNG of pixels (height, width, 3) in bytes, with texts by their keywords.

    ValueError for an array of another shape or dtype.
    """
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(f"png: pixels are {pixels.dtype} {pixels.shape}; uint8 (h, w, 3)")
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a byte of no filter before each row
    rows[:, 1:] = pixels.reshape(height, -1)
    parts = [_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, _TRUECOLOR, 0, 0, 0))]
    for keyword, text in (texts or {}).items():
        key = keyword.encode("latin-1", "replace")[:79]
        body = key + b"\0\0\0\0\0" + text.encode("utf-8")  # iTXt, not compressed
        parts.append(_chunk(b"iTXt", body))
    parts += [_chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)), _chunk(b"IEND", b"")]
    return _BEGIN + b"".join(parts)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def texts_of(data: bytes) -> dict[str, str]:
    """The texts of a PNG by their keywords; FormatError for what is no PNG, or a damaged one."""
    if not data.startswith(_BEGIN):
        raise FormatError("png: the bytes are no PNG")
    texts, place = {}, len(_BEGIN)
    while place + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, place)
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        if len(body) != size:
            raise FormatError(f"png: the chunk at byte {place} is cut off")
        key, _, rest = body.partition(b"\0")
        if kind == b"iTXt" and rest[:2] == b"\0\0" and size <= _MOST:
            text = rest[2:].split(b"\0", 2)[-1]
            texts[key.decode("latin-1")] = text.decode("utf-8", "replace")
        elif kind == b"tEXt" and size <= _MOST:
            texts[key.decode("latin-1")] = rest.decode("latin-1")
        place += 12 + size
    return texts


def save_png(
    path: str | os.PathLike[str],
    pixels: npt.NDArray[np.uint8],
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a PNG, with settings as JSON in its text "parameters"; returns its path.

    path: of the file, pixels: (height, width, 3) in bytes. ValueError for other pixels.
    """
    texts = {} if settings is None else {"parameters": json.dumps(dict(settings))}
    data, place = encode_png(pixels, texts), Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    with replacing(place) as file:
        file.write(data)
    return place

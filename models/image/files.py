"""Images as callers give them: files, Pillow's images, arrays, tensors, and what a page sends."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor

Pixels = npt.NDArray[np.uint8]
MOST_PIXELS = 1 << 26  # 8192 x 8192: 0.2 GB of bytes
MOST_BYTES = 1 << 30  # of a file
# A larger image than _FREE pixels has at most _TIMES for each byte of its file: deflate packs 1032
# bytes into one, and a pixel may be a bit. A header can claim any size.
_FREE, _TIMES = 1 << 22, 8 * 1032
_STRIP = 1 << 18  # pixels that are converted at a time
# What Pillow opens. Others stay closed: its reader of EPS starts a program (Ghostscript).
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "MPO", "DIB", "ICO", "TGA",
           "JPEG2000", "AVIF")  # fmt: skip
_DEEP = ("I", "I;16", "I;16B", "I;16L", "I;16N", "F")  # Pillow's modes of more than 8 bits


def is_image(value: Any) -> bool:
    """Whether `load` takes the value."""
    if isinstance(value, Mapping):
        return {*value} >= {"data", "width", "height"}
    if type(value).__name__ == "JsProxy":  # an ImageData
        return all(hasattr(value, name) for name in ("data", "width", "height"))
    plain = isinstance(value, str | Path | bytes | memoryview | Tensor | np.ndarray)
    return plain or _is_pillow(value)


def load(source: Any, *, shrink: bool = False) -> Pixels:
    """The pixels (height, width, 3) uint8, RGB, of an image.

    source: a file's path or its bytes (Pillow reads them: pip install 'rushlight[image]'), an image
    of Pillow, an array or tensor (height, width), or with 1, 3 or 4 channels last, of bytes or of
    floats from 0 to 1, or a page's ImageData. Files are of the formats JPEG, PNG, GIF, BMP, PPM,
    WebP, TIFF, ICO, TGA, JPEG 2000 or AVIF. They are turned as their EXIF says; of an animation the
    first frame is taken; 16 bits become 8; what is transparent is white. shrink: a larger JPEG is
    read at a half, a quarter or an eighth of its size. FormatError for a file that is damaged, no
    image of these formats or of more than 2**26 pixels, ValueError for another array.
    """
    if isinstance(source, Mapping):
        return _page(source["data"], source["width"], source["height"])
    if type(source).__name__ == "JsProxy":
        return _page(source.data.to_py(), source.width, source.height)
    if isinstance(source, Tensor):
        source = source.detach().cpu().numpy()
    if isinstance(source, np.ndarray):
        return _array(source)
    if _is_pillow(source):
        _check_size(source, "the image", None)
        return _pillow(source, "the image")
    if isinstance(source, memoryview):
        source = bytes(source)
    if not isinstance(source, str | Path | bytes):
        raise TypeError(
            f"image: a {type(source).__name__} is not supported; supported: a path, bytes, an "
            "array, a tensor, an image of Pillow"
        )
    return _file(source, shrink)


def _is_pillow(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "PIL"


def _file(source: str | Path | bytes, shrink: bool) -> Pixels:
    name = "the image" if isinstance(source, bytes) else str(source)
    if not isinstance(source, bytes):
        path = Path(source)
        if not path.is_file():
            why = "is not a regular file" if path.exists() else "no such file"
            raise FileNotFoundError(f"{name}: {why}")
        if path.stat().st_size > MOST_BYTES:
            raise FormatError(f"{name} has {path.stat().st_size} bytes; at most {MOST_BYTES}")
        source = path.read_bytes()
    try:
        from PIL import Image
    except ImportError:
        raise FormatError(
            f"{name}: image files are read by Pillow: pip install 'rushlight[image]'"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's bound is lower than ours
            Image.init()
            known = [kind for kind in FORMATS if kind in Image.OPEN]
            image = Image.open(io.BytesIO(source), formats=known)
            width, height = image.size
            if shrink and width * height > MOST_PIXELS and image.format in ("JPEG", "MPO"):
                scale = (MOST_PIXELS / (width * height)) ** 0.5
                image.draft("RGB", (int(width * scale / 2), int(height * scale / 2)))
            _check_size(image, name, len(source))
            return _pillow(image, name)
    except FormatError:
        raise
    # Pillow's readers raise what the damage makes them raise.
    except Exception as error:
        raise FormatError(
            f"{name} is no image that Pillow reads: {error}",
            hint=f"supported: {', '.join(FORMATS)}",
        ) from None


def _check_size(image: Any, name: str, nbytes: int | None) -> None:
    """Raise FormatError for more pixels than are read, or than so many bytes can hold."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise FormatError(
            f"{name} has {width} x {height} pixels; at most {MOST_PIXELS}",
            hint="make it smaller first, as PIL.Image.Image.thumbnail does",
        )
    if nbytes is not None and width * height > _FREE + _TIMES * nbytes:
        raise FormatError(f"{name} claims {width} x {height} pixels in {nbytes} bytes")


def _pillow(image: Any, name: str) -> Pixels:
    from PIL import ImageOps

    image.seek(0) if getattr(image, "n_frames", 1) > 1 else None
    image = ImageOps.exif_transpose(image)
    width, height = image.size
    if not width or not height:
        raise FormatError(f"{name} has no pixels")
    image.load()
    top = _top(image) if image.mode in _DEEP else 0.0
    pixels = np.empty((height, width, 3), np.uint8)
    step = max(1, _STRIP // width)
    for top_row in range(
        0, height, step
    ):  # in strips, as an image of all modes takes 20 bytes a pixel
        strip = image.crop((0, top_row, width, min(top_row + step, height)))
        strip.info = image.info
        pixels[top_row : top_row + step] = _bytes(strip, top)
    return pixels


def _bytes(image: Any, top: float) -> Any:
    """The pixels of an image of any mode, as RGB or one channel; deep values from 0 to `top`."""
    from PIL import Image

    if image.mode in _DEEP:
        return _scaled(np.asarray(image, np.float64), top)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return np.asarray(image.convert("RGB"))


def _top(image: Any) -> float:
    """The value of white in an image of 16 bits, or of a float image, which is up to 1 or 255."""
    if image.mode == "F":
        values = np.asarray(image)
        return 1.0 if np.nanmax(values, initial=0.0) <= 1 else 255.0
    return 65535.0 if image.mode != "I" or image.getextrema()[1] > 255 else 255.0


def _scaled(values: npt.NDArray[Any], top: float) -> Pixels:
    """Deep values as bytes (height, width, 1)."""
    clean = np.nan_to_num(values / top, nan=0.0, posinf=1.0, neginf=0.0)
    return np.rint(np.clip(clean, 0, 1) * 255).astype(np.uint8)[:, :, None]


def _array(values: npt.NDArray[Any]) -> Pixels:
    shape = values.shape
    fits = values.ndim == 2 or (values.ndim == 3 and shape[2] in (1, 3, 4))
    if not fits or not values.size or values.size > 4 * MOST_PIXELS:
        raise ValueError(
            f"image: the array is {shape}; it must be (height, width) or (height, width, channels) "
            "with 1, 3 or 4 channels"
        )
    if values.dtype.kind == "f":
        clean = np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=0.0)
        if clean.min() < 0 or clean.max() > 1:
            raise ValueError(
                f"image: floats are {clean.min():.4g} to {clean.max():.4g}; they must be 0 to 1 "
                "(pass bytes for 0 to 255)"
            )
        values = np.rint(clean * 255).astype(np.uint8)
    elif values.dtype == np.uint16:
        values = np.rint(values / 257.0).astype(np.uint8)
    elif values.dtype.kind in "iu" and values.min() >= 0 and values.max() <= 255:
        values = values.astype(np.uint8)
    else:
        raise ValueError(f"image: the array is {values.dtype}; it must be uint8 or floats 0 to 1")
    deep = values if values.ndim == 3 else values[:, :, None]
    if deep.shape[2] == 4:
        alpha = deep[:, :, 3:].astype(np.float32) / 255
        mixed = deep[:, :, :3] * alpha + 255 * (1 - alpha)
        return np.rint(mixed).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(deep, (*deep.shape[:2], 3)))


def _page(raw: Any, width: Any, height: Any) -> Pixels:
    """The pixels of a page's ImageData: bytes of RGBA."""
    data = np.frombuffer(raw, np.uint8)
    if not all(isinstance(n, int) and n > 0 for n in (width, height)) or (
        data.size != width * height * 4
    ):
        raise ValueError(
            f"image: {data.size} bytes are no {width} x {height} pixels of RGBA; pass an ImageData"
        )
    return _array(data.reshape(height, width, 4))


def are_images(value: Any) -> bool:
    """Whether `load_all` takes the value."""
    several = isinstance(value, list | tuple)
    return all(map(is_image, value)) if several else is_image(value)


def load_all(value: Any, *, shrink: bool = False) -> list[Pixels]:
    """The pixels of an image, or of each of a list of images, as `load`."""
    several = isinstance(value, list | tuple)
    return [load(image, shrink=shrink) for image in (value if several else [value])]

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
MOST_PIXELS = 1 << 28  # 0.8 GB of bytes
MOST_BYTES = 1 << 30  # of a file
_DEEP = ("I", "I;16", "I;16B", "I;16L", "I;16N", "F")  # Pillow's modes of more than 8 bits


def is_image(value: Any) -> bool:
    """Whether `load` takes the value."""
    if isinstance(value, Mapping):
        return {*value} >= {"data", "width", "height"}
    if type(value).__name__ == "JsProxy":  # an ImageData
        return all(hasattr(value, name) for name in ("data", "width", "height"))
    plain = isinstance(value, str | Path | bytes | memoryview | Tensor | np.ndarray)
    return plain or _is_pillow(value)


def load(source: Any) -> Pixels:
    """The pixels (height, width, 3) uint8, RGB, of an image.

    source: a file's path or its bytes (Pillow reads them: pip install 'rushlight[image]'), an image
    of Pillow, an array or tensor (height, width), or with 1, 3 or 4 channels last, of bytes or of
    floats from 0 to 1, or a page's ImageData. Files are turned as their EXIF says; of an animation
    the first frame is taken; 16 bits become 8; what is transparent is white. FormatError for a file
    that is damaged, no image or of more than 2**28 pixels, ValueError for another array.
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
        return _pillow(source, "the image")
    if isinstance(source, memoryview):
        source = bytes(source)
    if not isinstance(source, str | Path | bytes):
        raise TypeError(
            f"image: a {type(source).__name__} is not supported; supported: a path, bytes, an "
            "array, a tensor, an image of Pillow"
        )
    return _file(source)


def _is_pillow(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "PIL"


def _file(source: str | Path | bytes) -> Pixels:
    name = "the image" if isinstance(source, bytes) else str(source)
    if not isinstance(source, bytes):
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(f"{name}: no such file")
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
            image = Image.open(io.BytesIO(source))
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise FormatError(f"{name} has {width} x {height} pixels; at most {MOST_PIXELS}")
            return _pillow(image, name)
    except FormatError:
        raise
    # Pillow's readers raise what the damage makes them raise.
    except Exception as error:
        raise FormatError(f"{name} is no image that Pillow reads: {error}") from None


def _pillow(image: Any, name: str) -> Pixels:
    from PIL import Image, ImageOps

    image.seek(0) if getattr(image, "n_frames", 1) > 1 else None
    image = ImageOps.exif_transpose(image)
    if image.mode in _DEEP:
        values = np.asarray(image, np.float64)
        return _array(_scaled(values, image.mode))
    clear = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    if clear:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    found: Pixels = np.asarray(image.convert("RGB"))
    if found.ndim != 3 or not found.size:
        raise FormatError(f"{name} has no pixels")
    return found


def _scaled(values: npt.NDArray[np.float64], mode: str) -> Pixels:
    """Deep values as bytes: 16 bits, or what a float image holds up to 1 or to 255."""
    if mode == "F":
        top = 1.0 if np.nanmax(values, initial=0.0) <= 1 else 255.0
    else:
        top = 65535.0 if values.max(initial=0) > 255 or mode != "I" else 255.0
    clean = np.nan_to_num(values / top, nan=0.0, posinf=1.0, neginf=0.0)
    return np.rint(np.clip(clean, 0, 1) * 255).astype(np.uint8)


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


def load_all(value: Any) -> list[Pixels]:
    """The pixels of an image, or of each of a list of images."""
    return [load(one) for one in value] if isinstance(value, list | tuple) else [load(value)]

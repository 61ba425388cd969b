"""The frames of a video: pictures, an animated picture, a folder of pictures, or a video file."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.models.image.files import MOST_BYTES, Pixels, load

MOST_FRAMES = 20_000
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")


def frames_of(video: Any, count: int, step: int | None = None) -> list[Pixels]:
    """`count` frames (height, width, 3) uint8 of a video.

    video: a list of pictures, as `load` takes them, or the path or the bytes of an animated
    picture, a folder of pictures in the order of their names, or a file of video, which av
    (PyAV) reads. step: between the frames that are taken, from the first on; None: they are spread
    over the whole. Of a shorter video some are taken again. FormatError for what is no video,
    FileNotFoundError for a path that is not there.
    """
    if isinstance(video, list | tuple) and len(video) == 1:
        video = video[0]
    if isinstance(video, list | tuple):
        return [load(video[i]) for i in _places(len(video), count, step)]
    if isinstance(video, str | Path) and Path(video).is_dir():
        files = sorted(p for p in Path(video).iterdir() if p.suffix.lower() in _PICTURES)
        if not files:
            raise FormatError(f"{video} has no pictures; supported: {', '.join(_PICTURES)}")
        return [load(files[i]) for i in _places(len(files), count, step)]
    if isinstance(video, str | Path | bytes):
        return _file(video, count, step)
    return [load(video)] * count


def _places(there: int, count: int, step: int | None) -> list[int]:
    if not 1 <= there <= MOST_FRAMES:
        raise FormatError(f"the video has {there} frames; it must have 1 to {MOST_FRAMES}")
    last = there - 1 if step is None else min(count * step, there) - 1
    found: list[int] = np.linspace(0, last, num=count).astype(np.int64).tolist()
    return found


def _file(video: str | Path | bytes, count: int, step: int | None) -> list[Pixels]:
    name = "the video" if isinstance(video, bytes) else str(video)
    if not isinstance(video, bytes):
        path = Path(video)
        if not path.is_file():
            raise FileNotFoundError(f"{name}: no such file")
        if path.stat().st_size > MOST_BYTES:
            raise FormatError(f"{name} has {path.stat().st_size} bytes; at most {MOST_BYTES}")
        video = path.read_bytes()
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise FormatError(
            f"{name}: animated pictures are read by Pillow: pip install 'rushlight[image]'"
        ) from None
    try:
        with Image.open(io.BytesIO(video)) as picture:
            found = []
            for place in _places(getattr(picture, "n_frames", 1), count, step):
                picture.seek(place)
                found.append(load(picture.convert("RGB")))
            return found
    except UnidentifiedImageError:
        pass
    except (OSError, SyntaxError, ValueError) as error:
        raise FormatError(f"{name} is no animated picture that Pillow reads: {error}") from None
    if importlib.util.find_spec("av") is None:
        raise FormatError(
            f"{name} is no picture; files of video are read by PyAV (pip install av), or pass the "
            "frames as a list of pictures, a folder of them or an animated GIF"
        )
    return _decoded(video, name, count, step)


def _decoded(video: bytes, name: str, count: int, step: int | None) -> list[Pixels]:
    import av

    try:
        with av.open(io.BytesIO(video)) as container:
            stream = container.streams.video[0]
            there = sum(1 for _ in container.decode(stream))
        places, found = _places(there, count, step), {}
        with av.open(io.BytesIO(video)) as container:
            for i, frame in enumerate(container.decode(container.streams.video[0])):
                if i in places:
                    found[i] = load(frame.to_ndarray(format="rgb24"))
    except (av.FFmpegError, IndexError) as error:
        raise FormatError(f"{name} is no video that PyAV reads: {error}") from None
    return [found[i] for i in places]

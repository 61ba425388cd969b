"""Datasets of images with classes: MNIST's idx files, and folders."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.source import open_regular
from rushlight.core.ops.creation import zeros
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.utils.data import Dataset

Place = str | os.PathLike[str]
Change = Callable[[Any], Any]

# The third byte of an idx file.
_KINDS = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_LARGEST = 2**32  # bytes of an array
_FREE, _TIMES = 64 << 20, 64  # bytes that a packed file may have, and per byte of it
_MOST_DIMS = 32


def read_idx(path: Place) -> Tensor:
    """The array of an idx file (LeCun's format of MNIST), plain or compressed by gzip.

    Raises FormatError for another file, for one that ends early or goes on after its end, and for
    one that would unpack to more than 64 times its bytes (and 64 MB).
    """
    place = Path(path)
    with open_regular(place) as file:
        packed = file.read(2) == b"\x1f\x8b"
        most = os.fstat(file.fileno()).st_size
        file.seek(0)
        try:
            return _idx(gzip.open(file) if packed else file, place, most, packed)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{place}: {error}") from None


def _idx(source: Any, place: Path, size: int, packed: bool) -> Tensor:
    head = source.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _KINDS:
        raise FormatError(f"{place} is no idx file: it begins with {head!r}")
    dtype, dims = np.dtype(_KINDS[head[2]]), head[3]
    sizes = source.read(4 * dims)
    if len(sizes) < 4 * dims or dims > _MOST_DIMS:
        raise FormatError(f"{place} ends in its header, or has more than {_MOST_DIMS} dims")
    shape = struct.unpack(f">{dims}I", sizes)
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes > _LARGEST:
        raise FormatError(f"{place}: {shape} needs {nbytes} bytes; {_LARGEST} are allowed")
    # Read in pieces: a header that lies allocates no more than the file holds.
    data, most = bytearray(), _FREE + _TIMES * size if packed else _LARGEST
    while len(data) <= nbytes and (piece := source.read(min(nbytes + 1 - len(data), 1 << 22))):
        data += piece
        if len(data) > most:
            raise FormatError(
                f"{place}: {size} bytes would unpack to {nbytes}; {most} are allowed",
                hint="unpack it with gunzip first",
            )
    if len(data) != nbytes:
        there = "more" if len(data) > nbytes else len(data)
        raise FormatError(f"{place}: {shape} needs {nbytes} bytes; there are {there}")
    array = np.frombuffer(data, dtype).reshape(shape)
    return tensor(array.astype(array.dtype.newbyteorder("="), copy=False))


class Classified(Dataset[Any]):
    """Images (n, channels, height, width) uint8 with classes; samples are float32 in [0, 1].

    transform and target_transform are called with an image and a class.
    """

    classes: list[str]

    def __init__(
        self,
        data: Tensor,
        targets: Tensor,
        transform: Change | None,
        target_transform: Change | None,
    ) -> None:
        if len(data) != len(targets):
            raise FormatError(f"{len(data)} images, but {len(targets)} classes")
        self.data, self.targets = data, targets
        self.transform, self.target_transform = transform, target_transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        image: Any = self.data[index].float() / 255
        target: Any = self.targets[index]
        image = image if self.transform is None else self.transform(image)
        change = self.target_transform
        return image, target if change is None else change(target)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples at `indices`, read at once."""
        where = tensor(indices)
        images, targets = self.data[where].float() / 255, self.targets[where]
        pairs = zip(images.unbind(), targets.unbind(), strict=True)
        change, other = self.transform, self.target_transform
        return [
            (image if change is None else change(image), target if other is None else other(target))
            for image, target in pairs
        ]


class MNIST(Classified):
    """Images of digits from a folder with the idx files of MNIST's names, plain or .gz.

    Samples: (float32 (1, height, width) in [0, 1], class int64). train: the 60,000, else the
    10,000. FileNotFoundError that names the files; FormatError for damaged ones.

    `root` is the folder. `transform` and `target_transform` change image and class.
    """

    classes = [str(n) for n in range(10)]

    def __init__(
        self,
        root: Place,
        train: bool = True,
        transform: Change | None = None,
        target_transform: Change | None = None,
    ) -> None:
        kind = "train" if train else "t10k"
        images = read_idx(_found(Path(root), f"{kind}-images-idx3-ubyte"))
        labels = read_idx(_found(Path(root), f"{kind}-labels-idx1-ubyte"))
        if images.ndim != 3 or labels.ndim != 1:
            raise FormatError(
                f"{root}: images are {images.shape}, labels {labels.shape}; they "
                "must have 3 dims and 1"
            )
        super().__init__(images.unsqueeze(1), labels.to(int64), transform, target_transform)


class FashionMNIST(MNIST):
    """Images of clothes with MNIST's format (Xiao et al., 2017): see `MNIST`.

    Debian's package dataset-fashion-mnist puts them into /usr/share/datasets/fashion-mnist.

    `root`, `train`, `transform`, `target_transform` and what it raises are as there.
    """

    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
               "Bag", "Ankle boot"]  # fmt: skip


def _found(root: Path, name: str) -> Path:
    for place in (root, root / "raw", root / "MNIST" / "raw", root / "FashionMNIST" / "raw"):
        for file in (name, f"{name}.gz", name.replace("-idx", ".idx")):
            if (place / file).is_file():
                return place / file
    raise FileNotFoundError(f"{root} has neither {name} nor {name}.gz")


class ImageFolder(Dataset[Any]):
    """Images of a folder with a folder for each class; `classes` are their names, sorted.

    Samples: (float32 (3, height, width) in [0, 1], class int64), read when they are asked for (with
    Pillow: pip install 'rushlight[image]'). loader(path) reads in place of `rl.image.load`.
    FileNotFoundError for a folder without images.

    `root` is the folder. `transform` and `target_transform` change image and class.
    """

    ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")

    def __init__(
        self,
        root: Place,
        transform: Change | None = None,
        target_transform: Change | None = None,
        loader: Change | None = None,
    ) -> None:
        place = Path(root)
        self.classes = sorted(folder.name for folder in place.iterdir() if folder.is_dir())
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples = [
            (path, i)
            for name, i in self.class_to_idx.items()
            for path in sorted((place / name).rglob("*"))
            if path.suffix.lower() in self.ENDINGS and path.is_file()
        ]
        if not self.samples:
            raise FileNotFoundError(
                f"{place} has no folders with images; it needs one for each class"
            )
        self.transform, self.target_transform, self.loader = transform, target_transform, loader

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, number = self.samples[index]
        image = _read(path) if self.loader is None else self.loader(path)
        image = image if self.transform is None else self.transform(image)
        change = self.target_transform
        target = zeros((), dtype=int64) + number
        return image, target if change is None else change(target)


def _read(path: Path) -> Tensor:
    from rushlight.models.image.files import load

    return tensor(np.ascontiguousarray(load(path).transpose(2, 0, 1))).float() / 255

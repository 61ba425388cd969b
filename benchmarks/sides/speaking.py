"""A voice of Piper in a process of its own: Rushlight or onnxruntime.

    python benchmarks/sides/speaking.py THREADS CONTENDER

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import numpy as np

python: Any = import_module("python")  # of this folder
THREADS, CONTENDER = int(sys.argv[1]), sys.argv[2]


class Contender:
    """One library; `said` makes the samples of a sentence's tokens, without noise."""

    def load(self, path: str, ids: list[list[int]]) -> dict[str, Any]:
        """Load a voice; the seconds until it is loaded and until the first sentence is made."""
        watch = python.Watch()
        self.ids = ids
        self.open(path)
        loaded = watch.read()["seconds"]
        self.said(ids[0])
        return {"load_s": loaded, "first_s": watch.read()["seconds"] + loaded}

    def speak(self, out: str = "") -> dict[str, float]:
        """Say all sentences; the seconds, and those until the first."""
        watch = python.Watch()
        pieces = [self.said(self.ids[0])]
        first = watch.read("first")
        pieces += [self.said(row) for row in self.ids[1:]]
        rest = watch.read()
        if out:
            np.save(out, np.concatenate(pieces))
        return {
            **first,
            "seconds": rest["seconds"] + first["first_seconds"],
            "processor_s": rest["processor_s"] + first["first_processor_s"],
            "spoken_s": sum(map(len, pieces)) / 22050,
        }

    def open(self, path: str) -> None:
        """Load a voice."""
        raise NotImplementedError

    def said(self, ids: list[int]) -> Any:
        """The samples of tokens."""
        raise NotImplementedError


class Rushlight(Contender):
    """Rushlight, as the task calls it."""

    def __init__(self) -> None:
        import rushlight as rl

        self.rl: Any = rl
        rl.set_num_threads(THREADS)

    def about(self) -> dict[str, str]:
        kernels = self.rl.device("cpu").info["kernels"]
        return {"rushlight": f"{self.rl.version.rushlight}, {kernels}"}

    def open(self, path: str) -> None:
        self.model = self.rl.models.load(path)

    def said(self, ids: list[int]) -> Any:
        from rushlight.models.layers.speech.voice import VoiceText
        from rushlight.models.tasks.pipeline import parts

        still = {"noise_scale": 0.0, "noise_scale_duration": 0.0, "speed": 1.0}
        with self.rl.no_grad():
            steps = parts(self.model.speak(VoiceText(tuple(ids), (), ""), still, None))
            try:
                next(steps)
            except StopIteration as finished:
                return finished.value[0]
        raise RuntimeError("a sentence has no pieces")


class OnnxRuntime(Contender):
    """onnxruntime: all graph optimizations, one session."""

    def about(self) -> dict[str, str]:
        return {"onnxruntime": str(import_module("onnxruntime").__version__)}

    def open(self, path: str) -> None:
        ort: Any = import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def said(self, ids: list[int]) -> Any:
        given = {
            "input": np.asarray([ids], np.int64),
            "input_lengths": np.asarray([len(ids)], np.int64),
            "scales": np.asarray([0, 1, 0], np.float32),
        }
        return self.session.run(None, given)[0].reshape(-1)


if __name__ == "__main__":
    kinds: dict[str, type[Contender]] = {"rushlight": Rushlight, "onnxruntime": OnnxRuntime}
    contender = kinds[CONTENDER]()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)

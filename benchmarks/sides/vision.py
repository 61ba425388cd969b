"""An image network in a process of its own: Rushlight, onnxruntime or PyTorch.

    python benchmarks/sides/vision.py THREADS CONTENDER

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

python: Any = import_module("python")  # of this folder
Watch = python.Watch
THREADS, CONTENDER = int(sys.argv[1]), sys.argv[2]
# The sides of the pictures.
SIDES = {"mobilenet_v2": 224, "resnet50": 224, "vit_b": 224, "yolov8n": 640, "sam_encoder": 512}


def pixels_of(kind: str) -> np.ndarray:
    """The same picture in every process."""
    side = SIDES[kind]
    return np.random.default_rng(0).normal(size=(1, 3, side, side)).astype(np.float32)


class Contender:
    """One library; `run` makes the arrays of a picture."""

    run: Callable[[], list[np.ndarray]]

    def about(self) -> dict[str, str]:
        """Versions."""
        return {"python": platform.python_version(), CONTENDER: self.version()}

    def version(self) -> str:
        """The library's."""
        raise NotImplementedError

    def infer(self, count: int, out: str = "") -> dict[str, float]:
        """The time of a picture, from `count` in a row; writes the arrays to the file `out`."""
        watch = Watch()
        for _ in range(count):
            outs = self.run()
        took: dict[str, float] = watch.read("", count)
        if out:
            np.savez(out, *outs)
        return took


class Rushlight(Contender):
    """Rushlight, by the captured function that its tasks call."""

    def __init__(self) -> None:
        import rushlight as rl

        self.rl: Any = rl
        rl.set_num_threads(THREADS)

    def version(self) -> str:
        return f"{self.rl.version.rushlight}, {self.rl.device('cpu').info['kernels']}"

    def load(self, kind: str, folder: str) -> None:
        """Load a network."""
        from rushlight.models.layers.vision.model import captured

        model = self.rl.models.load(folder)
        pixels = self.rl.from_numpy(pixels_of(kind))
        what = {"yolov8n": "detect", "sam_encoder": "encode_image"}.get(kind, "forward")

        def run() -> list[np.ndarray]:
            with self.rl.no_grad():
                outs = captured(model, what, pixels)
            return [t.numpy() for t in (outs if isinstance(outs, tuple) else [outs])]

        self.run = run


class OnnxRuntime(Contender):
    """onnxruntime: all graph optimizations, one session."""

    def version(self) -> str:
        return str(import_module("onnxruntime").__version__)

    def load(self, kind: str, folder: str) -> None:
        """Load a network."""
        session = python.OnnxRuntime()._session(f"{folder}/model.onnx")
        pixels = pixels_of(kind)
        self.run = lambda: session.run(None, {"pixels": pixels})


class Torch(Contender):
    """PyTorch in inference mode, in the faster of its two memory formats."""

    def version(self) -> str:
        return str(import_module("torch").__version__)

    def write(self, kind: str, folder: str) -> None:
        """Write the network's files, which all contenders load."""
        import torch

        sys.stdout, stdout = sys.stderr, sys.stdout
        import_module("vision_models").write(kind, folder, torch.from_numpy(pixels_of(kind)))
        sys.stdout = stdout

    def load(self, kind: str, folder: str) -> str:
        """Load a network; returns the format."""
        import torch

        build = import_module("vision_models").build
        torch.set_num_threads(THREADS)
        took, nets = {}, {}
        for name in ("contiguous_format", "channels_last"):
            form = getattr(torch, name)
            net = build(kind).to(memory_format=form)
            pixels = torch.from_numpy(pixels_of(kind)).contiguous(memory_format=form)

            def run(net: Any = net, pixels: Any = pixels) -> list[np.ndarray]:
                with torch.inference_mode():
                    outs = net(pixels)
                return [t.numpy() for t in (outs if isinstance(outs, tuple) else [outs])]

            nets[name] = run
            run()
            took[name] = min(self._once(run) for _ in range(3))
        best = min(took, key=took.__getitem__)
        self.run = nets[best]
        return best

    def _once(self, run: Callable[[], Any]) -> float:
        watch = Watch()
        run()
        return float(watch.read()["processor_s"])


if __name__ == "__main__":
    kinds: dict[str, type[Contender]] = {
        "rushlight": Rushlight,
        "onnxruntime": OnnxRuntime,
        "torch": Torch,
    }
    contender = kinds[CONTENDER]()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)

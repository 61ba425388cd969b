"""tinygrad's own LLM runner (tinygrad.llm) on its WebGPU backend, in a process of its own.

    DEV=WEBGPU REALIZE=1 python benchmarks/sides/tinygrad_llm.py

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line. It runs under
TinyJit, as tinygrad's command line does. With REALIZE=1 it unpacks the weights once instead of for
each token. The wheel of tinygrad 0.14.0 lacks the package tinygrad.llm.kernels (their issue 18240).
Devices other than AMD's need only nn.Linear of it, which this script supplies.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any


def _transformer() -> Any:
    tinygrad_nn = import_module("tinygrad.nn")
    amd = ModuleType("tinygrad.llm.kernels.amd")
    amd.__dict__.update(
        Linear=tinygrad_nn.Linear,
        gated_delta_prefill=None,
        flash_attention=None,
        amd_custom_kernels_supported=lambda device: False,
    )
    sys.modules.setdefault("tinygrad.llm.kernels", ModuleType("tinygrad.llm.kernels"))
    sys.modules.setdefault(amd.__name__, amd)
    return import_module("tinygrad.llm.model").Transformer


class Contender:
    """A model and its calls."""

    def about(self) -> dict[str, Any]:
        """Versions and settings."""
        settings = {k: os.environ[k] for k in ("REALIZE", "HALF", "BEAM") if k in os.environ}
        return {
            "tinygrad": version("tinygrad"),
            "dawn-python": version("dawn-python"),
            "settings": settings,
        }

    def load(self, model: str, context: int) -> dict[str, float]:
        """Load a GGUF file for `tokens` tokens."""
        began = time.perf_counter()
        self.model, _ = _transformer().from_gguf(Path(model), context)
        return {"seconds": time.perf_counter() - began}

    def generate(self, ids: list[int], count: int) -> dict[str, Any]:
        """Greedy tokens, with the time of each token after the first."""
        steps = self.model.generate(list(ids))
        tokens = [next(steps)]
        began, spent = time.perf_counter(), time.process_time()
        tokens += [next(steps) for _ in range(count - 1)]
        return {
            "decode_seconds": (time.perf_counter() - began) / (count - 1),
            "decode_processor_s": (time.process_time() - spent) / (count - 1),
            "ids": tokens,
        }


if __name__ == "__main__":
    contender = Contender()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)

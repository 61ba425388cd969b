"""`rl.onnx`: ONNX files as modules.

`load` gives a module of any .onnx file. An operator that is not supported is an error that names it
before anything runs.
"""

from __future__ import annotations

from rushlight.core.onnx.loading import load
from rushlight.core.onnx.module import OnnxModule, Results

__all__ = ["OnnxModule", "Results", "load"]

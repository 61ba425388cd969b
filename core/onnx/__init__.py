"""`rl.onnx`: ONNX files as modules, and modules as ONNX files.

`load` gives a module of any .onnx file; `export` writes one. An operator that is not supported is
an error that names it before anything runs.
"""

from __future__ import annotations

from rushlight.core.onnx.export import ExportError, export
from rushlight.core.onnx.loading import load
from rushlight.core.onnx.module import OnnxModule, Results

__all__ = ["ExportError", "OnnxModule", "Results", "export", "load"]

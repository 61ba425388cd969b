"""`rl.onnx`: ONNX files as modules, and modules as ONNX files.

`load` gives a module of any .onnx file, `load_async` does without blocking, `inspect` tells of one
without running it, `timed` runs a module node by node, `export` writes a file. An operator that is
not supported is an error that names it before anything runs.
"""

from __future__ import annotations

from rushlight.core.onnx.export import ExportError, export
from rushlight.core.onnx.loading import load
from rushlight.core.onnx.module import OnnxModule, Results
from rushlight.core.onnx.streaming import load_async
from rushlight.core.onnx.summary import Summary, inspect
from rushlight.core.onnx.timing import NodeTime, timed, timed_async

__all__ = [
    "ExportError", "NodeTime", "OnnxModule", "Results", "Summary", "export", "inspect", "load",
    "load_async", "timed", "timed_async",
]  # fmt: skip

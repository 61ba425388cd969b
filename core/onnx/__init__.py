"""`rl.onnx`: ONNX files as modules.

`load` gives a module of any .onnx file, `load_async` does without blocking, `inspect` tells of one
without running it, and `timed` runs a module node by node. An operator that is not supported is an
error that names it before anything runs.
"""

from __future__ import annotations

from rushlight.core.onnx.loading import load
from rushlight.core.onnx.module import OnnxModule, Results
from rushlight.core.onnx.streaming import load_async
from rushlight.core.onnx.summary import Summary, inspect
from rushlight.core.onnx.timing import NodeTime, timed

__all__ = ["NodeTime", "OnnxModule", "Results", "Summary", "inspect", "load", "load_async", "timed"]

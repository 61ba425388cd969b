"""`rl.onnx`: ONNX files as modules, and modules as ONNX files.

`load` gives a module of any .onnx file, `load_async` does without blocking, `inspect` tells of one
without running it, `timed` runs a module node by node, `export` writes a file. An operator that is
not supported is an error that names it before anything runs.
"""

from __future__ import annotations

from rushlight.core.onnx.export import ExportError, export, is_in_onnx_export
from rushlight.core.onnx.loading import load
from rushlight.core.onnx.module import OnnxModule, Results
from rushlight.core.onnx.streaming import load_async
from rushlight.core.onnx.summary import Summary, inspect
from rushlight.core.onnx.timing import NodeTime, timed, timed_async
from rushlight.core.settings.standins import refuse_all

__all__ = [
    "ExportError", "NodeTime", "OnnxModule", "Results", "Summary", "export", "inspect",
    "is_in_onnx_export", "load", "load_async", "timed", "timed_async",
]  # fmt: skip
# What torch.onnx has beside; OnnxExporterError is what its export raises.
OnnxExporterError = ExportError
globals().update(
    refuse_all(
        "onnx",
        "dynamo_export register_custom_op_symbolic unregister_custom_op_symbolic "
        "select_model_mode_for_export ONNXProgram ExportOptions",
        "rl.onnx.export(module, args, path) writes a file, and rl.onnx.load(path) runs one",
    )
)

"""Modules and functions as ONNX files: traced at several sizes, written as nodes, and checked."""

from __future__ import annotations

from rushlight.core.onnx.export.exporting import export
from rushlight.core.onnx.export.recording import ExportError, is_in_onnx_export

__all__ = ["ExportError", "export", "is_in_onnx_export"]

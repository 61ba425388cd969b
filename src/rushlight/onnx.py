"""Types of rushlight.onnx. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.onnx import *

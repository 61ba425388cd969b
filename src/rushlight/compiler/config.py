"""Types of rushlight.compiler.config. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.options import *

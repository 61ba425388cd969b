"""Types of rushlight.compiler. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.compiler import *

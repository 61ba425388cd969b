"""Types of rushlight.library. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.library import *

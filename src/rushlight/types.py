"""Types of rushlight.types. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.types import *

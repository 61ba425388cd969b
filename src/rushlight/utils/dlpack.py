"""Types of rushlight.utils.dlpack. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.dlpack import *

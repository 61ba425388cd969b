"""Types of rushlight.cuda.nvtx. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.machine.nvtx import *

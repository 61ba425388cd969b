"""Types of rushlight.distributed. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.machine.distributed import *

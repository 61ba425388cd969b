"""Types of rushlight.cuda.amp. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.machine.cuda_amp import *

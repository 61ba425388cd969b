"""Types of rushlight.futures. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.machine.futures import *

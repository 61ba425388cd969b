"""Types of rushlight.cpu. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.machine.cpu import *

"""Types of rushlight.accelerator. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.machine.accelerator import *

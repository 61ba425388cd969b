"""Types of rushlight.utils.benchmark. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.measuring.benchmark import *

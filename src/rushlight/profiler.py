"""Types of rushlight.profiler. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.measuring.profiler import *

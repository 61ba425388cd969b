"""Types of rushlight.nn.attention. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.neural.attention import *

"""Types of rushlight.nn.common_types. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.neural.common_types import *

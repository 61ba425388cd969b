"""Types of rushlight.utils.data.distributed. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.neural.sampler import *

"""Types of rushlight.distributions.utils. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.neural.distribution_utils import *

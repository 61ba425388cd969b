"""Types of rushlight.testing. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.measuring.testing import *

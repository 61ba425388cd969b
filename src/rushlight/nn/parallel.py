"""Types of rushlight.nn.parallel. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.layers.parallel import *

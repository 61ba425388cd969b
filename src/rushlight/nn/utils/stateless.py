"""Types of rushlight.nn.utils.stateless. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.utils.stateless import *

"""Types of rushlight.nn.parameter. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.parameter import *

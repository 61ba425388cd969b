"""Types of rushlight.nn.init. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.init import *

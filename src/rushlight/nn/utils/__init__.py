"""Types of rushlight.nn.utils. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.utils import *

"""Types of rushlight.nn.utils.fusion. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.utils.fusion import *

"""Types of rushlight.nn.modules. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.modules import *

"""Types of rushlight.training. Written by tools/stubs.py (`make format`)."""

from rushlight.core.training import *

"""Types of rushlight.nn.functional. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.functional import *

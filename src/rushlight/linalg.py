"""Types of rushlight.linalg. Written by tools/stubs.py (`make format`)."""

from rushlight.core.linalg import *

"""Types of rushlight.autograd.graph. Written by tools/stubs.py (`make format`)."""

from rushlight.core.autograd.graph import *

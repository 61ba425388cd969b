"""Types of rushlight.autograd.function. Written by tools/stubs.py (`make format`)."""

from rushlight.core.autograd.function import *

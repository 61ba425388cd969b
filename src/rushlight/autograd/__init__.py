"""Types of rushlight.autograd. Written by tools/stubs.py (`make format`)."""

from rushlight.core.autograd import *

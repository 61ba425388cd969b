"""Types of rushlight.autograd.variable. Written by tools/stubs.py (`make format`)."""

from rushlight.core.autograd.variable import *

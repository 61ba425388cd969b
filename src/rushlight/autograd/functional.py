"""Types of rushlight.autograd.functional. Written by tools/stubs.py (`make format`)."""

from rushlight.core.autograd.functional import *

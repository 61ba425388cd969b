"""Types of rushlight.optim. Written by tools/stubs.py (`make format`)."""

from rushlight.core.optim import *

"""Types of rushlight.fft. Written by tools/stubs.py (`make format`)."""

from rushlight.core.fft import *

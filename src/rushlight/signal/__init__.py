"""Types of rushlight.signal. Written by tools/stubs.py (`make format`)."""

from rushlight.core.signal import *

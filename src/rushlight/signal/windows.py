"""Types of rushlight.signal.windows. Written by tools/stubs.py (`make format`)."""

from rushlight.core.signal.windows import *

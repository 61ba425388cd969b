"""Types of rushlight.utils.data. Written by tools/stubs.py (`make format`)."""

from rushlight.core.utils.data import *

"""Types of rushlight.masked. Written by tools/stubs.py (`make format`)."""

from rushlight.core.masked import *

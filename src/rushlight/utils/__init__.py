"""Types of rushlight.utils. Written by tools/stubs.py (`make format`)."""

from rushlight.core.utils import *

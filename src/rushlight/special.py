"""Types of rushlight.special. Written by tools/stubs.py (`make format`)."""

from rushlight.core.special import *

"""Types of rushlight.func. Written by tools/stubs.py (`make format`)."""

from rushlight.core.func import *

"""Types of rushlight.mps. Written by tools/stubs.py (`make format`)."""

from rushlight.core.settings.mps import *

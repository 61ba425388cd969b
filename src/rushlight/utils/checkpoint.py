"""Types of rushlight.utils.checkpoint. Written by tools/stubs.py (`make format`)."""

from rushlight.core.utils.checkpoint import *

"""Types of rushlight.amp. Written by tools/stubs.py (`make format`)."""

from rushlight.core.settings.amp import *

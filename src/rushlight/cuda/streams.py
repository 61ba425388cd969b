"""Types of rushlight.cuda.streams. Written by tools/stubs.py (`make format`)."""

from rushlight.core.settings.streams import *

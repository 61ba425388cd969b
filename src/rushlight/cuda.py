"""Types of rushlight.cuda. Written by tools/stubs.py (`make format`)."""

from rushlight.core.settings.cuda import *

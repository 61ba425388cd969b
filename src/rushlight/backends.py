"""Types of rushlight.backends. Written by tools/stubs.py (`make format`)."""

from rushlight.core.settings.backends import *

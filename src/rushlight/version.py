"""Types of rushlight.version. Written by tools/stubs.py (`make format`)."""

from rushlight.core.settings.version import *

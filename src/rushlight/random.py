"""Types of rushlight.random. Written by tools/stubs.py (`make format`)."""

from rushlight.core.settings.random import *

"""Types of rushlight.tuning. Written by tools/stubs.py (`make format`)."""

from rushlight.models.tuning import *

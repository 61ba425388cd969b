"""Types of rushlight.schedulers. Written by tools/stubs.py (`make format`)."""

from rushlight.models.schedulers import *

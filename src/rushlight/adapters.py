"""Types of rushlight.adapters. Written by tools/stubs.py (`make format`)."""

from rushlight.models.adapters import *

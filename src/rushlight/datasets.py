"""Types of rushlight.datasets. Written by tools/stubs.py (`make format`)."""

from rushlight.models.datasets import *

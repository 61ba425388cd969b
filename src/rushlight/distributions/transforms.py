"""Types of rushlight.distributions.transforms. Written by tools/stubs.py (`make format`)."""

from rushlight.core.distributions.transforms import *

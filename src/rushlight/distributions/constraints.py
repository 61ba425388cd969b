"""Types of rushlight.distributions.constraints. Written by tools/stubs.py (`make format`)."""

from rushlight.core.distributions.constraints import *

"""Types of rushlight.nn.utils.parametrize. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.utils.parametrize import *

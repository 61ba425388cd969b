"""Types of rushlight.nn.utils.parametrizations. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.utils.parametrizations import *

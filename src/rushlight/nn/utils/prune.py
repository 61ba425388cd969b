"""Types of rushlight.nn.utils.prune. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.utils.prune import *

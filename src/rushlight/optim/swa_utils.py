"""Types of rushlight.optim.swa_utils. Written by tools/stubs.py (`make format`)."""

from rushlight.core.optim.swa_utils import *

"""Types of rushlight.optim.lr_scheduler. Written by tools/stubs.py (`make format`)."""

from rushlight.core.optim.lr_scheduler import *

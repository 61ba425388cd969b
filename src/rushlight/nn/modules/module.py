"""Types of rushlight.nn.modules.module. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.modules.module import *

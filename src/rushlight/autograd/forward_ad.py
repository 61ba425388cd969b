"""Types of rushlight.autograd.forward_ad. Written by tools/stubs.py (`make format`)."""

from rushlight.core.autograd.forward_ad import *

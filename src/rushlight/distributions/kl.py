"""Types of rushlight.distributions.kl. Written by tools/stubs.py (`make format`)."""

from rushlight.core.distributions.kl import *

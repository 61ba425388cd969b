"""Types of rushlight.nn.utils.rnn. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn.utils.rnn import *

"""Types of rushlight.sparse. Written by tools/stubs.py (`make format`)."""

from rushlight.core.sparse import *

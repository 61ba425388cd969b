"""Types of rushlight.serialization. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.files.serialization import *

"""Types of rushlight.storage. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.storage import *

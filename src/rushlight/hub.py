"""Types of rushlight.hub. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.files.hub import *

"""Types of rushlight.utils.cpp_extension. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.files.cpp_extension import *

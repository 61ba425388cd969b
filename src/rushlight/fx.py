"""Types of rushlight.fx. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.fx import *

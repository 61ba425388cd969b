"""Types of rushlight.overrides. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.programs.overrides import *

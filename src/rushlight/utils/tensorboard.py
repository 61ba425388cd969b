"""Types of rushlight.utils.tensorboard. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.files.tensorboard import *

"""Types of rushlight.nn.modules.utils. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.neural.modules_utils import *

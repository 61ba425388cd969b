"""Types of rushlight.utils.collect_env. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.measuring.collect_env import *

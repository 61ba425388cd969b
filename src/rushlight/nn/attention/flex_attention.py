"""Types of rushlight.nn.attention.flex_attention. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.neural.flex_attention import *

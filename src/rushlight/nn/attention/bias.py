"""Types of rushlight.nn.attention.bias. Written by tools/stubs.py (`make format`)."""

from rushlight.core.torch_paths.neural.attention_bias import *

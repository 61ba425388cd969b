"""Checkpoints whose config.json has a `quantization_config`: their weights as plain ones or blocks.

A weight stays quantized where a type of the table (`basis/quantized.py`) holds its numbers exactly:
symmetric integers of 4 and 8 bits with float16 scales of 32 inputs or more, and MXFP4; also where
it rounds no more than the method's own arithmetic in 16 bits, as HQQ's of 4 bits in rows. All
others are dequantized, some rows at a time.
"""

from rushlight.models.prequantized.methods import METHODS, dequantized

__all__ = ["METHODS", "dequantized"]

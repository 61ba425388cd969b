"""Quantizing: float32 rows to the blocks of a quantized type, with NumPy."""

from rushlight.core.basis.encoding.rows import ENCODABLE, check_encodable, encode

__all__ = ["ENCODABLE", "check_encodable", "encode"]

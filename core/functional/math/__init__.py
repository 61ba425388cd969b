"""Composites of numbers: elementwise functions, products of matrices, scans, statistics."""

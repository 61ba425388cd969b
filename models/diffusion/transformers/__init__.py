"""Transformers that denoise."""

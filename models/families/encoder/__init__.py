"""Encoders of text."""

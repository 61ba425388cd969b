"""Layers of the families of sound."""

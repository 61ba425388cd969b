"""Transformers that predict noise or velocity, one family to a file, in diffusers' names."""

"""Families of language models that hear."""

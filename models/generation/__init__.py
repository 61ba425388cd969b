"""Generating text: caches, sampling, batches and sessions."""

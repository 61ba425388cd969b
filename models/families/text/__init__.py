"""Decoder-only (causal) language models."""

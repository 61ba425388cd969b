"""Layers beyond the basic ones: recurrence, transformers, pooling, folding, losses."""

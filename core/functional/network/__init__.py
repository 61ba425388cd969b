"""Composites of networks: activations, losses, pooling, folding, resampling."""

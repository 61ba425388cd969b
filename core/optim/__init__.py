"""Optimizers that update parameters in place."""

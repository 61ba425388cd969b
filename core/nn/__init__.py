"""Modules: parameters, buffers, layers and losses."""

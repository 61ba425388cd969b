"""Attention of image families where the plain transformer's is not enough."""

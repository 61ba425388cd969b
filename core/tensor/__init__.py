"""Tensors: storage, the one call path of ops, and autograd."""

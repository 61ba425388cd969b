"""Every op in NumPy: used without C kernels, and the reference that they are tested against."""

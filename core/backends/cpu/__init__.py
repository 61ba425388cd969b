"""The cpu device: C kernels where they apply, else NumPy kernels."""

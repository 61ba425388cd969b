"""PyTorch's files: pickles that are read without running anything, and written."""

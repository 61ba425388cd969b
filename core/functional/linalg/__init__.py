"""Linear algebra under the names of torch.linalg: composites of the ops of ops/linalg.py."""

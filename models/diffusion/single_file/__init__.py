"""Checkpoints in one file, in their authors' names."""

"""Profiles, autotuning, and comparisons for tests."""

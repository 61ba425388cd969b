"""Profiles, tuning, and comparisons for tests."""

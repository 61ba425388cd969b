"""Families of time series."""

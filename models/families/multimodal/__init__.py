"""Families that read texts with pictures."""

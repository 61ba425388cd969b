"""Rows of families that read texts with pictures, a file per family; see tests/models/seeing.py."""

"""Rows of families that write texts of pictures, a file per family; see captioning.py."""

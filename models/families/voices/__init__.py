"""Families that speak: texts, or the sounds that they are made of, to samples."""

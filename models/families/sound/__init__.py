"""Families of sound: classes of it, codecs, voices compared, pitch, and music."""

"""Families that hear: features of audio to text."""

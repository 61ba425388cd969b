"""Skeletons of convolutional image families."""

"""Builds the static site and serves it on loopback."""

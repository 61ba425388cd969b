"""Passes over a graph that devices share and apply before they compile it."""

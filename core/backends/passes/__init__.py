"""Passes over a graph that every device applies before it compiles the graph."""

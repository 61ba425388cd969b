"""Models whose layers lie on several devices: which layer goes where, and what is carried."""

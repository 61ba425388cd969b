"""The machine: accelerators, processes, the one process of a group, futures."""

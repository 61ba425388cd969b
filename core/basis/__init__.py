"""The lowest layer: dtypes, layouts, errors, and graphs of ops."""

"""Lines of WGSL that depend on dtypes and layouts."""

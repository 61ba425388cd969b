"""jit: capture a function's ops and replay them. README.md beside this file says how."""

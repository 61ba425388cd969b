"""The worker: Python in a web worker."""

"""The ops: one family per file, each with its shape rule and gradient side by side."""

"""Files: checkpoints by address, logs, what a pickle may hold."""

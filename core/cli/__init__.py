"""The rushlight command."""

"""Composites that arrange elements: joining, splitting, diagonals, selecting, moving dims."""

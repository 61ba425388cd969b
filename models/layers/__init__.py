"""Parts of families: norms, rotary positions, attention, MLPs and the two skeletons."""

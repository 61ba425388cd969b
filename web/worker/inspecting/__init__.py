"""Looking into weight files of any size, by ranges of their bytes."""

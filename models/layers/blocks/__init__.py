"""Blocks that stand in place of attention: scans, convolutions, recurrences, latent attention."""

"""Autoencoders: pixels to latents and back."""

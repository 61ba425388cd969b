"""Autoencoders between pixels and latents."""

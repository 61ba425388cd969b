"""Pictures out of words: diffusion models in diffusers' folders and in single files.

A pipeline class (`pipelines/`) joins parts: text encoders, a denoiser (`unet/`, `transformers/`)
and an autoencoder (`vae/`). `loop.py` samples; the schedulers are `models/schedulers/`.
"""

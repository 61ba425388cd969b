"""Pictures out of words: diffusion models in the parts that diffusers' folders have."""

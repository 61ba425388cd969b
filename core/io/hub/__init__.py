"""Model names, and downloading the models."""

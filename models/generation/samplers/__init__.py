"""Samplers on the host: the rules that choose a token from logits which are read back."""

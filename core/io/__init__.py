"""Readers and writers of weight files, the hub, tokenizers and templates."""
